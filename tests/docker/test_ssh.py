"""SSH into containers of a real engine: its own sshd, as the job's user, without capabilities."""

import asyncio
import os
import shutil

import pytest

from agents.contract.tunnel import StreamRefusal
from agents.runtime.docker_exec import MARK
from agents.terminals.node_ssh import NodeSsh
from agents.terminals.replica_terminals import replica_ssh
from agents.tunnel.link import OpenRefused
from tests.contract.replicas import UNTIL_TOLD, Watch, a_replica, go
from tests.environment.openssh import UnpackedServer, unpack_server
from tests.unit.agents.ssh_replicas import ssh_replica

# On demand: a machine without a Debian mirror cannot have its server.
pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.on_demand]
MIB = 1 << 20
SIZE_MIB = 16
# Where a job that brought its own server has it.
BROUGHT = {"PATH": "/workspace/usr/bin:/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    return unpack_server(tmp_path_factory.mktemp("sshd"))


@pytest.fixture
def runtime(docker_node):
    return docker_node.runtime()


def start(runtime, server):
    """A replica with fence 7 that has a server at home."""
    replica = a_replica(UNTIL_TOLD, fence=7, memory_mib=512, env={"EPOCHS": "3"} | BROUGHT)
    go(runtime, replica)
    Watch(runtime).says(replica, b"ready")
    home = runtime.workspaces.folders(replica.id).scratch
    shutil.copytree(server.usr, home / "usr")
    UnpackedServer(home / "usr").bring_libraries()
    for path in home.rglob("*"):
        path.chmod(0o755)
    return replica


def with_ssh(runtime, folder, test):
    async def run():
        async with ssh_replica(NodeSsh(replica_ssh(runtime)), folder) as replica:
            await test(replica)

    asyncio.run(run())


def commands(container) -> list[str]:
    return [row[-1] for row in container.top(ps_args="-eo pid,args")["Processes"]]


def test_a_command_and_a_file_as_the_job_has_them_and_nothing_is_left(
    docker_node, runtime, server, tmp_path
):
    replica = start(runtime, server)
    container = docker_node.container(replica)
    home = runtime.workspaces.folders(replica.id).scratch

    async def test(ssh):
        await ssh.log_in()
        told = 'echo "$EPOCHS $(id -u) $(hostname) $PWD $(grep CapEff /proc/self/status)"; exit 7'
        code, output = await ssh.run("ssh", "{}", told)
        attrs = container.attrs["Config"]
        words = output.decode().split()
        assert words[:4] == ["3", attrs["User"].partition(":")[0], attrs["Hostname"], "/workspace"]
        assert int(words[-1], 16) == 0
        assert code == 7
        sent = tmp_path / "sent"
        sent.write_bytes(os.urandom(MIB) * SIZE_MIB)
        assert await ssh.run("scp", str(sent), "{}:model.bin") == (0, b"")
        assert (home / "model.bin").read_bytes() == sent.read_bytes()
        assert await ssh.run("scp", "{}:model.bin", str(tmp_path / "back")) == (0, b"")
        assert (tmp_path / "back").read_bytes() == sent.read_bytes()
        detach = (
            "setsid sh -c 'trap \"\" HUP TERM; sleep 4321' >/dev/null 2>&1 </dev/null & echo up"
        )
        assert (await ssh.run("ssh", "{}", detach))[1] == b"up\n"

    # The node ends what is open, with what it started.
    with_ssh(runtime, tmp_path, test)
    left = commands(container)
    assert not [each for each in left if "4321" in each or "sshd" in each], left
    assert container.exec_run(["ls", "/dev/shm"])[1] == b""
    container.reload()
    assert container.status == "running"


def test_an_image_without_a_server_says_so(docker_node, runtime, tmp_path):
    replica = a_replica(UNTIL_TOLD, fence=7)
    go(runtime, replica)
    Watch(runtime).says(replica, b"ready")
    container = docker_node.container(replica)

    async def test(ssh):
        with pytest.raises(OpenRefused) as refused:
            await ssh.open()
        assert refused.value.why is StreamRefusal.SSHD_MISSING

    with_ssh(runtime, tmp_path, test)
    assert not [each for each in commands(container) if MARK in each]
