"""A replica on a real engine: made hardened, run, watched, ended, and gone without a trace."""

import os
import resource
from pathlib import Path

import pytest
from docker.errors import NotFound

from agents.contract.documents import Rendezvous
from agents.facts.images import WantedImage
from agents.runtime.base import ContainerPhase, RuntimeFailure
from agents.runtime.docker_recipe import OOM_SCORE
from agents.runtime.grants import Grant
from agents.runtime.image_pull import ImageAbsent
from tests.contract.replicas import DEVICE, MEET, UNTIL_TOLD, Watch, a_gang, a_replica, go

pytestmark = pytest.mark.docker

SHOW_DEVICES = "import os; print(os.environ['TESSERA_DEVICES'])"
FILL_MEMORY = "held = [bytearray(1 << 20) for _ in range(1024)]"
LET_A_CHILD_FILL_MEMORY = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", "{FILL_MEMORY}"])
"""
SHOW_BINDING = """
print(*(line.strip() for line in open('/proc/self/status') if line.startswith('Cpus_allowed_list')))
print('oom_score_adj:', open('/proc/self/oom_score_adj').read().strip())
"""
RUN_FROM_TMP = """
import os, shutil, subprocess
shutil.copy("/bin/busybox", "/tmp/busybox")
os.chmod("/tmp/busybox", 0o755)
print(subprocess.run(["/tmp/busybox", "echo", "compiled here"], capture_output=True).stdout)
"""


def test_the_engine_receives_every_hardened_flag(docker_node):
    replica = a_replica(memory_mib=256, cpu_milli=1_500, shm_mib=32)
    runtime = docker_node.runtime(pids=77, user=65_534)
    runtime.prepare(replica, [DEVICE])
    container = docker_node.container(replica)
    host, config = container.attrs["HostConfig"], container.attrs["Config"]
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Privileged"] is False
    assert host["PidsLimit"] == 77
    assert host["Memory"] == host["MemorySwap"] == 256 << 20
    assert host["NanoCpus"] == 1_500_000_000
    assert host["ShmSize"] == 32 << 20
    assert host["OomScoreAdj"] == OOM_SCORE
    assert host["Init"] is True
    assert host["RestartPolicy"]["Name"] == "no"
    assert not host["Binds"] and not host["Devices"]
    home = runtime.workspaces.home(replica.id)
    mounts = {Path(mount["Source"]) for mount in container.attrs["Mounts"]}
    assert all(source.parent == home for source in mounts), "folders of the replica, and no other"
    assert not host.get("Tmpfs") and config["WorkingDir"] == "/workspace"
    assert host["PidMode"] == "" and host["IpcMode"] == "private" and host["UTSMode"] == ""
    assert [lane.name for lane in docker_node.lanes()] == [host["NetworkMode"]]
    files = min(65_535, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert {u["Name"]: u["Hard"] for u in host["Ulimits"]} == {"nofile": files, "core": 0}
    assert config["User"] == "65534:65534", "a uid alone leaves the group to be root"


def test_a_container_is_bound_to_the_cpus_and_memory_nodes_that_it_is_granted(docker_node):
    cpu = min(os.sched_getaffinity(0))
    replica = a_replica(SHOW_BINDING)
    runtime = docker_node.runtime(lambda *_: Grant(cpus=str(cpu), memory_nodes="0"))
    watch = Watch(runtime)
    go(runtime, replica)
    assert watch.ended(replica).exit_code == 0
    host = docker_node.container(replica).attrs["HostConfig"]
    assert (host["CpusetCpus"], host["CpusetMems"]) == (str(cpu), "0")
    status = dict(line.split() for line in runtime.log(replica.id, 0, 4_096).decode().splitlines())
    assert (status["Cpus_allowed_list:"], status["oom_score_adj:"]) == (str(cpu), str(OOM_SCORE))


def test_inside_the_container_no_power_is_left(docker_node):
    program = (
        "print(*(l for l in open('/proc/self/status') if l[:3] in ('Cap', 'NoN', 'Uid', 'Gid')))"
    )
    replica = a_replica(program)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    assert watch.ended(replica).exit_code == 0
    said = dict(
        line.split(":") for line in runtime.log(replica.id, 0, 4_096).decode().splitlines() if line
    )
    said = {key.strip(): value.split() for key, value in said.items()}
    assert said["Uid"] == said["Gid"] == ["65534"] * 4
    assert said["NoNewPrivs"] == ["1"]
    assert {said[name][0] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
        "0" * 16
    }


def test_a_device_reaches_the_container_by_its_uuid(docker_node):
    replica = a_replica(SHOW_DEVICES)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica, devices=(DEVICE,))
    assert watch.ended(replica).exit_code == 0
    assert runtime.log(replica.id, 0, 4_096).decode().split() == [DEVICE]


def test_without_devices_an_image_cannot_ask_for_all_of_them(docker_node):
    replica = a_replica("import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'])")
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    watch.ended(replica)
    assert runtime.log(replica.id, 0, 4_096).decode().split() == ["void"]


def test_a_memory_kill_is_told_apart_from_another_137(docker_node):
    greedy = a_replica(FILL_MEMORY, memory_mib=48)
    killer = a_replica("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, greedy)
    go(runtime, killer)
    ends = [watch.ended(replica) for replica in (greedy, killer)]
    assert [(seen.exit_code, seen.memory_kill) for seen in ends] == [(137, True), (137, False)]


def test_a_program_that_survives_its_childs_memory_kill_succeeded(docker_node):
    replica = a_replica(LET_A_CHILD_FILL_MEMORY, memory_mib=48)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    seen = watch.ended(replica)
    assert (seen.exit_code, seen.memory_kill) == (0, False)


def test_a_program_may_run_what_it_compiled_under_tmp(docker_node):
    replica = a_replica(RUN_FROM_TMP)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, replica)
    watch.ended(replica)
    assert b"compiled here" in runtime.log(replica.id, 0, 4_096)


def test_two_ranks_of_a_gang_meet_by_name_on_their_jobs_network(docker_node):
    gang = a_gang(MEET, 2)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, *gang)
    assert [watch.ended(replica).exit_code for replica in gang] == [0, 0]
    assert runtime.log(gang[1].id, 0, 100) == b"rank 0 says hello\n"
    container = docker_node.container(gang[1])
    names = [f"tessera-{gang[0].job[:13]}-1-{rank}" for rank in (0, 1)]
    assert f"TESSERA_PEERS={','.join(names)}" in container.attrs["Config"]["Env"]
    assert f"MASTER_ADDR={names[0]}" in container.attrs["Config"]["Env"]


def test_nothing_is_left_of_a_gang_when_its_last_rank_is_removed(docker_node):
    gang = a_gang(UNTIL_TOLD, 2)
    runtime = docker_node.runtime()
    go(runtime, *gang)
    first, last = gang
    runtime.stop(first.id, 10)
    runtime.remove(first.id)
    assert len(docker_node.networks(first.job)) == 1, "rank 1 still runs on it"
    runtime.stop(last.id, 10)
    runtime.remove(last.id)
    assert docker_node.containers() == []
    assert docker_node.networks(first.job) == []
    assert list(docker_node.home.iterdir()) == []


def test_the_next_attempt_keeps_its_network_when_the_one_before_is_removed(docker_node):
    before = a_gang("pass", 2)
    after = a_gang(MEET, 2, job=before[0].job, attempt=2, fence=2)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    go(runtime, *before)
    for replica in before:
        watch.ended(replica)
    for replica in after:
        runtime.prepare(replica, ())
    for replica in before:
        runtime.remove(replica.id)
    go(runtime, *after)
    assert [watch.ended(replica).exit_code for replica in after] == [0, 0]


def test_two_networks_that_two_agents_made_at_once_become_one(docker_node):
    gang = a_gang(MEET, 2)
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    for replica in gang:
        runtime.prepare(replica, ())
    name, labels = f"tessera-job-{gang[0].job[:13]}", {"tessera.job": gang[0].job}
    docker_node.client.networks.create(name, driver="bridge", labels=labels)
    assert len(docker_node.networks(gang[0].job)) == 2
    go(runtime, *gang)
    assert [watch.ended(replica).exit_code for replica in gang] == [0, 0]


def test_a_replica_is_not_prepared_without_its_image(docker_node):
    replica = a_replica(image="127.0.0.1:9/nobody/nothing:1")
    runtime = docker_node.runtime()
    for attempt in (
        lambda: runtime.require_image(WantedImage(replica.image)),
        lambda: runtime.prepare(replica, ()),
    ):
        with pytest.raises(ImageAbsent) as absent:
            attempt()
        assert absent.value.image.name == replica.image
    assert runtime.containers() == {}


def test_a_foreign_container_of_the_same_name_is_named_and_left_alone(docker_node, docker_image):
    replica = a_replica()
    name = f"tessera-{replica.job[:13]}-1-0"
    foreign = docker_node.client.containers.create(docker_image, ["true"], name=name)
    runtime = docker_node.runtime()
    try:
        with pytest.raises(RuntimeFailure) as failure:
            runtime.prepare(replica, ())
        assert failure.value.code == "name_taken"
        with pytest.raises(RuntimeFailure):
            runtime.start(replica, (), Rendezvous(address="127.0.0.1", port=29_500))
        runtime.stop(replica.id, 0)
        runtime.remove(replica.id)
        foreign.reload()
        assert foreign.status == "created"
    finally:
        foreign.remove(force=True)


def test_another_nodes_replica_on_the_same_engine_is_never_touched(docker_node, tmp_path):
    replica = a_replica(UNTIL_TOLD)
    ours = docker_node.runtime()
    go(ours, replica)
    name, docker_node.name = docker_node.name, "another-node"
    other = docker_node.runtime()
    docker_node.name = name
    assert other.containers() == {}
    other.stop(replica.id, 0)
    other.remove(replica.id)
    assert ours.containers()[replica.id].phase is ContainerPhase.RUNNING


def test_a_container_removed_by_hand_is_no_longer_seen(docker_node):
    replica = a_replica(UNTIL_TOLD, world=2)
    runtime = docker_node.runtime()
    go(runtime, replica)
    container = docker_node.container(replica)
    container.remove(force=True)
    assert runtime.containers() == {}
    runtime.stop(replica.id, 1)
    runtime.remove(replica.id)
    with pytest.raises(NotFound):
        container.reload()
    assert docker_node.networks(replica.job) == []
