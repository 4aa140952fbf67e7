"""Whose a process is, and what becomes of a device that a stranger's process is on."""

import subprocess
import sys
from pathlib import Path

import pytest

from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.health.foreign_processes import find_foreign_processes, is_own_process
from agents.host.files import FileTree
from agents.nvml.processes import GpuProcess
from agents.runtime.base import ContainerPhase, ContainerStatus
from agents.runtime.process import ProcessRuntime
from tests.unit.agents.documents import a_replica

CONTAINER = "0123456789ab"
WHOLE = ("GPU-1", "", 0, 0)
SLICE = ("GPU-1", "1g.18gb", 2, 1)


def a_gpu(mig=False):
    return GpuFacts(0, "GPU-1", "NVIDIA H200", 143_771, "0:18:0", 0, mig, mig)


def an_instance(number=9):
    return InstanceFacts("GPU-1", number, 19, "1g.18gb", 2, 1, "MIG-1")


def a_seen(**fields):
    whole = {"replica": "r-1", "job": "j-1", "attempt": 1, "rank": 0, "fence": 1}
    place = {"phase": ContainerPhase.RUNNING, "container": CONTAINER, "address": "a", "port": 1}
    return ContainerStatus(**whole | place | fields)


class Paper:
    """Files of /proc as a dictionary."""

    def __init__(self, **texts):
        self.texts = texts

    def text(self, path):
        return self.texts.get(path)

    def names(self, path):
        return None

    def link(self, path):
        return None


def a_process(pid, group="0::/user.slice", leader=0, program="python"):
    return Paper(
        **{
            f"/proc/{pid}/cgroup": group,
            f"/proc/{pid}/stat": f"{pid} (a) b (c) S 1 {leader} {leader} 0 -1",
            f"/proc/{pid}/comm": f"{program}\n",
        }
    )


def find(clients, gpu, granted=(), ours=lambda pid: False, instances=(), files=None):
    files = files or a_process(7)
    return find_foreign_processes(
        {"GPU-1": clients}, [gpu], instances, frozenset(granted), ours, files
    )


@pytest.mark.parametrize(
    "group",
    [
        f"0::/system.slice/docker-{CONTAINER}cdef0123.scope",
        f"4:devices:/docker/{CONTAINER}cdef0123\n1:cpu:/docker/{CONTAINER}cdef0123",
    ],
)
def test_a_process_in_our_containers_control_group_is_ours(group):
    seen = {"r-1": a_seen()}
    assert is_own_process(a_process(7, group), seen, 7) is True
    other = group.replace(CONTAINER, "fedcba987654")
    assert is_own_process(a_process(7, other), seen, 7) is False


def test_a_process_of_a_replicas_session_is_ours():
    seen = {"r-1": a_seen(container="tessera-j-1-1-0", leader=3)}
    assert is_own_process(a_process(7, leader=3), seen, 7) is True
    assert is_own_process(a_process(7, leader=33), seen, 7) is False


def test_without_a_leader_that_lives_no_session_is_ours():
    ended = {"r-1": a_seen(container="tessera-j-1-1-0", leader=None)}
    assert is_own_process(a_process(7, leader=0), ended, 7) is False


def test_a_process_that_is_not_shown_is_nobodys():
    assert is_own_process(Paper(), {"r-1": a_seen()}, 7) is None


def test_what_a_real_replica_starts_is_ours_and_what_runs_beside_it_is_not(tmp_path):
    runtime = ProcessRuntime(tmp_path / "replicas")
    replica = a_replica(world=1, command=("sleep", "600"), launcher="none")
    runtime.prepare(replica, ())
    beside = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (identity,) = (tmp_path / "replicas").glob("*/identity.json")
        pid = int(identity.read_text("utf-8").partition('"pid": ')[2].partition(",")[0])
        files, seen = FileTree(Path("/")), runtime.containers()
        assert is_own_process(files, seen, pid) is True
        assert is_own_process(files, seen, beside.pid) is False
    finally:
        beside.communicate()
        runtime.stop("r-1", 0)
        runtime.remove("r-1")


def test_a_stranger_on_an_idle_gpu_holds_it_back_and_is_named():
    found = find([GpuProcess(7)], a_gpu())
    assert set(found.unavailable) == {WHOLE}
    (said,) = found.sentences
    assert "GPU 0 is used by python (pid 7)" in said and "not allocated" in said


def test_a_stranger_beside_a_job_is_told():
    found = find([GpuProcess(7)], a_gpu(), granted=[WHOLE])
    assert "a job shares it" in found.sentences[0]


def test_a_stranger_on_a_slice_holds_back_that_slice_alone():
    found = find([GpuProcess(7, 9)], a_gpu(mig=True), instances=[an_instance(), an_instance(10)])
    assert set(found.unavailable) == {SLICE}
    assert "1g.18gb at 2 of GPU 0" in found.sentences[0]


def test_a_stranger_on_the_whole_of_a_divided_gpu_is_told_and_holds_no_slice():
    found = find([GpuProcess(7)], a_gpu(mig=True), instances=[an_instance()])
    assert found.unavailable == {} and len(found.sentences) == 1


def test_our_own_processes_are_no_news():
    found = find([GpuProcess(7)], a_gpu(), granted=[WHOLE], ours=lambda pid: True)
    assert (found.unavailable, found.sentences) == ({}, ())


def test_a_process_that_cannot_be_seen_counts_only_on_an_idle_device():
    assert find([GpuProcess(7)], a_gpu(), [WHOLE], lambda pid: None, files=Paper()).sentences == ()
    found = find([GpuProcess(7)], a_gpu(), [], lambda pid: None, files=Paper())
    assert set(found.unavailable) == {WHOLE} and "a program (pid 7)" in found.sentences[0]


@pytest.mark.parametrize("program", ["nvidia-cuda-mps", "nvidia-persiste", "nv-hostengine"])
def test_servers_that_work_for_others_are_no_strangers(program):
    found = find([GpuProcess(7)], a_gpu(), files=a_process(7, program=program))
    assert (found.unavailable, found.sentences) == ({}, ())
