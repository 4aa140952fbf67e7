"""What changed between preparing a replica and starting it, and what belongs to others."""

import gc
import os
from unittest.mock import patch

import pytest
from docker.errors import NotFound
from docker.models.containers import Container

from agents.admission.policy import NodePolicy
from agents.contract.documents import Rendezvous
from agents.drill.kill_points import Killed
from agents.runtime.base import ContainerPhase, EngineUnreachable, RuntimeFailure
from agents.runtime.docker import DockerRuntime
from tests.contract.replicas import (
    DEVICE,
    UNTIL_TOLD,
    Watch,
    a_gang,
    a_replica,
    go,
    meeting_of,
    whole_log,
)

pytestmark = pytest.mark.docker

SHOW_DEVICES = "import os; print(os.environ['TESSERA_DEVICES'])"
CARVED_ANEW = DEVICE.replace("6f5a1c2e", "7a5a1c2e")


def env_of(container) -> set[str]:
    return set(container.attrs["Config"]["Env"])


def test_a_slice_that_was_carved_anew_is_given_by_its_new_uuid(docker_node):
    replica = a_replica(SHOW_DEVICES)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    runtime.prepare(replica, [DEVICE])
    runtime.start(replica, [CARVED_ANEW], meeting_of(runtime, [replica]))
    watch.ended(replica)
    assert runtime.log(replica.id, 0, 100).decode().split() == [CARVED_ANEW]
    requests = docker_node.container(replica).attrs["HostConfig"]["DeviceRequests"]
    assert [request["DeviceIDs"] for request in requests] == [[CARVED_ANEW]]


def test_a_replica_fails_if_its_image_was_removed_before_it_was_carved_anew(
    docker_node, docker_image
):
    name = f"{docker_node.name}:1"
    docker_node.client.images.get(docker_image).tag(name)
    replica = a_replica(SHOW_DEVICES, image=name)
    runtime = docker_node.runtime()
    runtime.prepare(replica, [DEVICE])
    docker_node.client.images.remove(name, force=True)
    with pytest.raises(RuntimeFailure) as failure:
        runtime.start(replica, [CARVED_ANEW], meeting_of(runtime, [replica]))
    assert failure.value.code == "vanished"


def test_a_container_that_is_listed_before_the_engine_knows_it_is_not_gone(docker_node):
    """As a busy engine does when its answer to the call that creates it was lost."""
    replica = a_replica(SHOW_DEVICES)
    runtime = docker_node.runtime()
    runtime.prepare(replica, [DEVICE])
    meeting = meeting_of(runtime, [replica])
    unknown = patch.object(runtime.client.api, "inspect_container", side_effect=NotFound("no"))
    with unknown, pytest.raises(EngineUnreachable):
        runtime.start(replica, [DEVICE], meeting)
    docker_node.container(replica).remove()
    with pytest.raises(RuntimeFailure) as failure:
        runtime.start(replica, [DEVICE], meeting)
    assert failure.value.code == "vanished"


def test_a_container_is_not_made_again_when_all_is_as_expected(docker_node):
    gang = a_gang(UNTIL_TOLD, 2)
    runtime = docker_node.runtime()
    for replica in gang:
        runtime.prepare(replica, [DEVICE])
    made = {replica.id: runtime.containers()[replica.id].container for replica in gang}
    go(runtime, *gang, devices=(DEVICE,))
    assert {replica.id: runtime.containers()[replica.id].container for replica in gang} == made


def test_a_gang_that_meets_on_another_engine_is_told_where(docker_node):
    replica = a_replica("import os; print(os.environ['MASTER_ADDR'], os.environ['TESSERA_PEERS'])")
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    runtime.prepare(replica, ())
    elsewhere = Rendezvous(address="gpu07.example", port=4_242, peers=("gpu07.example", "gpu08"))
    runtime.start(replica, (), elsewhere)
    watch.ended(replica)
    assert runtime.log(replica.id, 0, 100) == b"gpu07.example gpu07.example,gpu08\n"


def test_saying_start_again_never_ends_what_runs(docker_node):
    replica = a_replica(UNTIL_TOLD)
    runtime = docker_node.runtime()
    go(runtime, replica)
    before = runtime.containers()[replica.id]
    runtime.start(replica, [CARVED_ANEW], Rendezvous(address="elsewhere", port=1))
    assert runtime.containers()[replica.id] == before


def test_on_the_hosts_network_a_gang_meets_at_the_hosts_name_and_a_port_of_its_own(docker_node):
    runtime = docker_node.runtime(network="host")
    gangs = [a_gang("pass", 2) for _ in range(2)]
    watch = Watch(runtime)
    ports = set()
    for gang in gangs:
        for replica in gang:
            runtime.prepare(replica, ())
        meeting = meeting_of(runtime, gang)
        ports.add(meeting.port)
        assert meeting.address == os.uname().nodename
        for replica in gang:
            runtime.start(replica, (), meeting)
            container = docker_node.container(replica)
            assert container.attrs["HostConfig"]["NetworkMode"] == "host"
            assert f"MASTER_PORT={meeting.port}" in env_of(container)
            watch.ended(replica)
    assert len(ports) == 2, "two gangs of one host would take each other's port"
    assert runtime.fabric() == "host-network"
    assert docker_node.networks(*(gang[0].job for gang in gangs)) == []


def test_replicas_of_one_engine_share_a_fabric_and_of_another_do_not(docker_node):
    runtime = docker_node.runtime()
    assert runtime.fabric() == f"docker:{docker_node.client.info()['ID']}"
    assert runtime.version() == docker_node.client.version()["Version"]


def test_what_the_engine_refuses_to_start_is_told_with_its_words(docker_node):
    replica = a_replica()
    runtime = docker_node.runtime(user=-1)
    with pytest.raises(RuntimeFailure) as failure:
        go(runtime, replica)
    assert failure.value.code == "docker"
    assert runtime.containers()[replica.id].phase is ContainerPhase.CREATED


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_no_engine_is_one_clear_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(RuntimeFailure) as failure:
        DockerRuntime(tmp_path / "logs", "node", NodePolicy())
    assert failure.value.code == "docker"
    assert failure.value.sentence.startswith("no Docker Engine answers")
    del failure
    gc.collect()  # the socket that the SDK leaks when it is refused, while we ignore it


def test_an_agent_that_ends_while_it_makes_a_container_anew_loses_no_replica(docker_node):
    """It was told to start, so that a replica without any container would be called vanished."""
    replica = a_replica(SHOW_DEVICES)
    first = docker_node.runtime()
    first.prepare(replica, [DEVICE])
    meeting = meeting_of(first, [replica])
    with patch.object(DockerRuntime, "_create", side_effect=Killed), pytest.raises(Killed):
        first.start(replica, [CARVED_ANEW], meeting)
    second = docker_node.runtime()
    assert second.containers()[replica.id].phase is ContainerPhase.CREATED
    watch = Watch(second)
    second.start(replica, [CARVED_ANEW], meeting)
    watch.ended(replica)
    assert whole_log(second, replica.id).decode().split() == [CARVED_ANEW]
    docker_node.container(replica)


def test_an_agent_that_ends_with_the_old_and_the_new_container_starts_the_new_one(docker_node):
    replica = a_replica(SHOW_DEVICES)
    first = docker_node.runtime()
    first.prepare(replica, [DEVICE])
    meeting = meeting_of(first, [replica])
    with patch.object(Container, "remove", side_effect=Killed), pytest.raises(Killed):
        first.start(replica, [CARVED_ANEW], meeting)
    second = docker_node.runtime()
    assert second.containers()[replica.id].phase is ContainerPhase.CREATED
    watch = Watch(second)
    second.start(replica, [CARVED_ANEW], meeting)
    watch.ended(replica)
    assert whole_log(second, replica.id).decode().split() == [CARVED_ANEW]
    assert docker_node.container(replica).name == f"tessera-{replica.job[:13]}-1-0"
