"""SSH into plain processes: OpenSSH's clients and server, through a tunnel in memory."""

import asyncio
import os
from pathlib import Path

import pytest

from agents.contract.tunnel import StreamRefusal
from agents.runtime.grants import Grant
from agents.runtime.process import ProcessRuntime
from agents.terminals.node_ssh import NodeSsh
from agents.terminals.replica_terminals import replica_ssh
from agents.tunnel.link import OpenRefused
from tests.contract.replicas import UNTIL_TOLD, Watch, a_replica, go
from tests.environment.openssh import as_installed, unpack_server
from tests.unit.agents.ssh_replicas import SECONDS, ssh_replica

pytestmark = pytest.mark.slow
MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    return unpack_server(tmp_path_factory.mktemp("sshd"))


@pytest.fixture
def runtime(tmp_path):
    grant = Grant(wrapper=as_installed(tmp_path))
    runtime = ProcessRuntime(tmp_path / "replicas", lambda replica, devices: grant)
    yield runtime
    for replica in runtime.containers():
        runtime.stop(replica, 0)
        runtime.remove(replica)
    runtime.close()


def start(runtime, env):
    """With fence 7."""
    replica = a_replica(UNTIL_TOLD, fence=7, env={"EPOCHS": "it's 3\n"} | env)
    go(runtime, replica)
    Watch(runtime).says(replica, b"ready")
    return replica


def with_ssh(runtime, folder, test):
    async def run():
        async with ssh_replica(NodeSsh(replica_ssh(runtime)), folder) as replica:
            await test(replica)

    asyncio.run(run())


async def all_gone(runtime) -> None:
    async with asyncio.timeout(SECONDS):
        while runtime.terminals:
            await asyncio.sleep(0.02)


def leftovers(runtime, replica) -> list[Path]:
    return [*runtime.workspaces.folders(replica.id).temporary.glob("tessera-ssh.*")]


def test_a_command_a_file_and_a_screen_as_the_job_has_them(runtime, server, tmp_path):
    replica = start(runtime, server.variables)

    async def test(ssh):
        await ssh.log_in()
        command = 'printf "%s|" "$EPOCHS" "$(pwd -P)" "$(id -u)" "$HOME" "$(umask)"; exit 7'
        code, output = await ssh.run("ssh", "{}", command)
        work = runtime.workspaces.folders(replica.id).scratch.resolve()
        mask = os.umask(0o077)
        os.umask(mask)
        assert output.decode() == f"it's 3\n|{work}|{os.geteuid()}|{work}|{mask:04o}|"
        assert code == 7
        # A screen, and the keys of it.
        screen = await ssh.run("ssh", "-tt", "{}", stdin=b"stty size; tty; exit 5\n")
        assert screen[0] == 5
        assert b"/dev/pts/" in screen[1]
        sent = tmp_path / "sent"
        sent.write_bytes(os.urandom(3 * MIB + 1))
        assert await ssh.run("scp", str(sent), "{}:name with space") == (0, b"")
        assert (work / "name with space").read_bytes() == sent.read_bytes()
        assert await ssh.run("scp", "{}:name with space", str(tmp_path / "back")) == (0, b"")
        assert (tmp_path / "back").read_bytes() == sent.read_bytes()
        await all_gone(runtime)

    with_ssh(runtime, tmp_path, test)
    assert not leftovers(runtime, replica)


def test_what_it_started_ends_with_it_and_the_job_goes_on(runtime, server, tmp_path):
    replica = start(runtime, server.variables)

    async def test(ssh):
        await ssh.log_in()
        detach = "setsid sh -c 'trap \"\" HUP TERM; exec sleep 4321' >/dev/null 2>&1 </dev/null &"
        code, output = await ssh.run("ssh", "{}", f"{detach} echo $!")
        assert code == 0
        await all_gone(runtime)
        assert not Path("/proc", str(int(output))).exists()

    with_ssh(runtime, tmp_path, test)
    assert not leftovers(runtime, replica)
    assert runtime.leader(replica.id)


def test_the_client_listens_for_the_job_nowhere_and_reaches_it(runtime, server, tmp_path):
    start(runtime, server.variables)

    async def test(ssh):
        await ssh.log_in()
        words = ("-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:1", "{}", "true")
        code, said = await ssh.run("ssh", *words)
        assert code == 255
        assert b"remote port forwarding failed" in said
        # From the client to the job, as `tessera port`.
        code, said = await ssh.run("ssh", "-W", f"127.0.0.1:{ssh.port}", "{}", stdin=b"")
        assert said.startswith(b"SSH-2.0-")

    with_ssh(runtime, tmp_path, test)


def test_the_end_of_the_job_ends_it(runtime, server, tmp_path):
    replica = start(runtime, server.variables)

    async def test(ssh):
        stream, _, _ = await ssh.open()
        await asyncio.to_thread(runtime.stop, replica.id, 5)
        async with asyncio.timeout(SECONDS):
            while await stream.read():
                pass
        await all_gone(runtime)
        with pytest.raises(OpenRefused) as refused:
            await ssh.open()
        assert refused.value.why is StreamRefusal.REPLICA_UNKNOWN

    with_ssh(runtime, tmp_path, test)


def test_only_a_replica_that_runs_here(runtime, server, tmp_path):
    start(runtime, server.variables)

    async def test(ssh):
        for place in ({"rank": 1}, {"attempt": 8}):
            with pytest.raises(OpenRefused) as refused:
                await ssh.open(**place)
            assert refused.value.why is StreamRefusal.REPLICA_UNKNOWN

    with_ssh(runtime, tmp_path, test)
