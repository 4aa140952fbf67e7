"""A container with a share of a GPU: what of the host it sees, on a real engine."""

import os

import pytest

from agents.mps.grants import share_grant
from tests.contract.replicas import Watch, go
from tests.unit.mps.contained import DEVICE, NOBODY, a_shared

pytestmark = pytest.mark.docker
LOOK = """
import os
print(sorted(os.listdir("/dev/shm")), sorted(os.listdir(os.environ["CUDA_MPS_PIPE_DIRECTORY"])))
open("/dev/shm/mine", "w").close()
print(os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], os.environ["CUDA_VISIBLE_DEVICES"])
"""


def test_a_container_sees_its_daemons_folders_and_nothing_else_of_the_host(docker_node, home):
    home.root.mkdir()
    home.folder.mkdir()
    for folder in (home.pipe, home.shm):
        folder.mkdir(mode=0o700)
        os.chown(folder, NOBODY, NOBODY)
    (home.pipe / "control").touch()
    (home.shm / "cuda.shm").touch()
    # The engine has no such GPU: the device itself is left out, what MPS needs is given.
    runtime = docker_node.runtime(
        lambda replica, devices: share_grant(home.root, replica, [DEVICE], in_containers=True)
    )
    replica = a_shared(LOOK)
    watch = Watch(runtime)
    go(runtime, replica)
    assert watch.ended(replica).exit_code == 0, runtime.log(replica.id, 0, 4_096)
    said = runtime.log(replica.id, 0, 4_096).decode().splitlines()
    assert said == ["['cuda.shm'] ['control']", f"40 {DEVICE}"]
    assert (home.shm / "mine").stat().st_uid == NOBODY
    host = docker_node.container(replica).attrs["HostConfig"]
    assert host["IpcMode"] == "private" and not host["Privileged"]
