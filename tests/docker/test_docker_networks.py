"""Who can reach whom: a gang by itself, every other job alone, and no network is left behind."""

import pytest

from agents.runtime.docker_network import Networks
from tests.contract.replicas import (
    MEET,
    UNTIL_TOLD,
    Watch,
    a_gang,
    a_replica,
    go,
    meeting_of,
    whole_log,
)

pytestmark = pytest.mark.docker

SERVE = """
import socket
with socket.create_server(("", 4242)) as server:
    print("up", flush=True)
    server.accept()
"""
CALL = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2).close()
    print("reached")
except OSError:
    print("not reached")
"""


SOCKETS = """
import os, stat
for folder, _, names in os.walk("/"):
    if not folder.startswith(("/proc", "/sys")):
        for name in names:
            path = os.path.join(folder, name)
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                print(path)
print(len(open("/proc/net/unix").read().splitlines()) - 1, "sockets of its network")
"""


def address_of(container) -> str:
    container.reload()
    (network,) = container.attrs["NetworkSettings"]["Networks"].values()
    return network["IPAddress"]


def test_jobs_of_one_replica_never_share_a_network(docker_node):
    runtime = docker_node.runtime()
    jobs = [a_replica(UNTIL_TOLD) for _ in range(3)]
    go(runtime, jobs[0])
    for job in jobs[1:]:
        runtime.prepare(job, ())
    modes = {docker_node.container(job).attrs["HostConfig"]["NetworkMode"] for job in jobs}
    assert len(modes) == 3
    assert modes.isdisjoint({"bridge", "default", "host", "none"})


def test_a_job_does_not_reach_another_jobs_port(docker_node):
    server = a_replica(SERVE)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, server)
    watch.says(server, b"up")
    address = address_of(docker_node.container(server))
    caller = a_replica(command=("python3", "-c", CALL, address, "4242"))
    go(runtime, caller)
    watch.ended(caller)
    assert whole_log(runtime, caller.id) == b"not reached\n"
    container = docker_node.container(server)
    same = container.attrs["HostConfig"]["NetworkMode"]
    told = docker_node.client.containers.run(
        caller.image, ["python3", "-c", CALL, address, "4242"], network=same, remove=True
    )
    assert told == b"reached\n", "on one network it is reached, or this test shows nothing"


def test_a_lane_is_used_again_by_the_next_job(docker_node):
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    for _ in range(2):
        job = a_replica("print('ran')")
        go(runtime, job)
        assert watch.ended(job).exit_code == 0
        runtime.remove(job.id)
        assert len(docker_node.lanes()) == 1


def test_the_next_agent_uses_the_lanes_of_the_one_before(docker_node):
    first = docker_node.runtime()
    job = a_replica(UNTIL_TOLD)
    go(first, job)
    first.close()
    second = docker_node.runtime()
    other = a_replica(UNTIL_TOLD)
    go(second, other)
    second.stop(job.id, 5)
    second.remove(job.id)
    go(second, a_replica(UNTIL_TOLD))
    assert len(docker_node.lanes()) == 2


def test_a_lane_that_was_taken_away_meanwhile_is_made_again(docker_node):
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    job = a_replica("print('ran')")
    runtime.prepare(job, ())
    for lane in docker_node.lanes():
        lane.remove()
    go(runtime, job)
    assert watch.ended(job).exit_code == 0


def test_tidied_up_no_lane_is_left_but_one_in_use(docker_node):
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    running, ended = a_replica(UNTIL_TOLD), a_replica()
    go(runtime, running)
    go(runtime, ended)
    watch.ended(ended)
    runtime.remove(ended.id)
    runtime.tidy()
    used = docker_node.container(running).attrs["HostConfig"]["NetworkMode"]
    assert [lane.name for lane in docker_node.lanes()] == [used]
    runtime.stop(running.id, 5)
    runtime.remove(running.id)
    runtime.tidy()
    assert docker_node.lanes() == []


def test_gangs_networks_that_nobody_needs_any_more_go_with_the_next_removal(docker_node):
    gangs = [a_gang(MEET, 2) for _ in range(3)]
    gone, other, waiting = (gang[0] for gang in gangs)
    runtime = docker_node.runtime()
    for replica in (gone, other, waiting):
        runtime.prepare(replica, ())
    docker_node.container(gone).remove()
    runtime.remove(other.id)
    jobs = [replica.job for replica in (gone, other, waiting)]
    assert [n.name for n in docker_node.networks(*jobs)] == [f"tessera-job-{waiting.job[:13]}"]


def test_a_network_of_nearly_the_same_name_that_is_not_ours_is_left_alone(docker_node):
    gang = a_gang(MEET, 2)
    runtime = docker_node.runtime()
    foreign = docker_node.client.networks.create(f"tessera-job-{gang[0].job[:13]}-lab")
    try:
        runtime.prepare(gang[0], ())
        runtime.remove(gang[0].id)
        runtime.tidy()
        foreign.reload()
    finally:
        foreign.remove()


def test_a_network_that_another_agent_takes_away_as_soon_as_it_is_made_is_made_again(docker_node):
    """Another node's agent on the engine finds no container on it yet, and sweeps."""
    gang = a_gang(MEET, 2)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    plain, taken = runtime.client.api.create_network, []

    def create(*arguments, **options):
        answer = plain(*arguments, **options)
        if not taken:
            taken.extend(network.remove() for network in docker_node.networks(gang[0].job))
        return answer

    runtime.client.api.create_network = create
    go(runtime, *gang)
    assert [watch.ended(replica).exit_code for replica in gang] == [0, 0]
    assert len(taken) == 1


def test_a_network_that_another_agent_takes_away_before_the_start_is_made_again(
    docker_node, monkeypatch
):
    gang = a_gang(MEET, 2)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    for replica in gang:
        runtime.prepare(replica, ())
    plain, taken = Networks.network_for, []

    def of(networks, replica):
        name = plain(networks, replica)
        if not taken:
            taken.extend(network.remove() for network in docker_node.networks(replica.job))
        return name

    monkeypatch.setattr(Networks, "network_for", of)
    meeting = meeting_of(runtime, gang)
    for replica in gang:
        runtime.start(replica, (), meeting)
    assert [watch.ended(replica).exit_code for replica in gang] == [0, 0]
    assert len(taken) == 1


def printed(runtime, program: str) -> bytes:
    job = a_replica(program)
    watch = Watch(runtime)
    go(runtime, job)
    assert watch.ended(job).exit_code == 0
    return whole_log(runtime, job.id)


def test_finding_2_11_a_job_has_no_socket_of_its_host(docker_node):
    """Neither a file, such as the engine's, nor one in the abstract name space."""
    assert printed(docker_node.runtime(), SOCKETS) == b"0 sockets of its network\n"
