"""What a node tells clients of SSH, and what it refuses, whatever the replica's server says."""

import asyncio
import os

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
)

from agents.contract.errors import ContractError
from agents.contract.ssh import (
    GreetingRefused,
    SshGreeting,
    read_greeting,
    read_request,
    write_greeting,
)
from agents.contract.tunnel import StreamRefusal, read_target, write_target
from agents.runtime.docker_ssh import ExecFrames, files_place
from agents.runtime.process_ssh import ServerPipes
from agents.terminals import node_ssh
from agents.terminals.node_ssh import NodeSsh
from agents.tunnel.link import OpenRefused, StreamReset
from tests.support.memory_tunnel import tunnel
from tests.unit.agents.ssh_replicas import SshReplica

KEY = "A" * 68


class StandIn:
    """A server that says these pieces, then ends with this code, if with any."""

    def __init__(self, *says, code=None):
        self.says = [*says]
        self.code = code
        self.heard = b""
        self.is_closed = asyncio.Event()

    async def read(self):
        if self.says:
            return self.says.pop(0)
        if self.code is None:
            await asyncio.Event().wait()
        return b""

    async def write(self, data):
        self.heard += data

    async def end(self):
        pass

    def abort(self):
        pass

    async def failure(self):
        return self.code, "its last words"

    async def close(self):
        self.is_closed.set()


def with_server(server, test):
    """`server`: or an exception of its opening."""

    def open_server(target):
        if isinstance(server, Exception):
            raise server
        return server

    async def run():
        ssh = NodeSsh(open_server)

        async def serve(incoming):
            await ssh.serve(incoming, read_target(incoming.target))

        async with tunnel(serve) as (portal, _, _):
            await test(SshReplica(None, KEY, portal))
            await ssh.close()

    asyncio.run(run())


def test_the_client_is_told_the_key_that_the_server_has_been_given():
    server = StandIn(b"ol", b"ga\nSS", b"H-2.0-x\r\n", b"more")

    async def test(ssh):
        stream, greeting, first = await ssh.open()
        while b"more" not in first:
            first += await stream.read()
        assert first == b"SSH-2.0-x\r\nmore"
        assert greeting.login == "olga"
        private, _, rest = server.heard.partition(b"\n\n")
        assert not rest
        public = load_ssh_private_key(private + b"\n", None).public_key()
        own = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        assert own == f"ssh-ed25519 {greeting.host_key}"
        stream.abort()
        await server.is_closed.wait()

    with_server(server, test)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (lambda: StandIn(code=127), StreamRefusal.SSHD_MISSING),
        (lambda: StandIn(code=126), StreamRefusal.SSHD_MISSING),
        (lambda: StandIn(code=1), StreamRefusal.FAILED),
        (lambda: StandIn(b"olga\n", code=255), StreamRefusal.FAILED),
        (lambda: StandIn(b"-oProxyCommand=x\nSSH-2.0\n"), StreamRefusal.FAILED),
        (lambda: StandIn(b"SSH-2.0\n"), StreamRefusal.FAILED),
        (lambda: StandIn(b"olga\nnoise SSH-\n", code=0), StreamRefusal.FAILED),
        (lambda: StandIn(b"x" * 600, code=0), StreamRefusal.FAILED),
        (lambda: OSError("no engine"), StreamRefusal.FAILED),
        (lambda: OpenRefused(StreamRefusal.REPLICA_UNKNOWN), StreamRefusal.REPLICA_UNKNOWN),
    ],
)
def test_what_is_no_server_is_refused_and_ended(server, why):
    made = server()

    async def test(ssh):
        with pytest.raises(OpenRefused) as refused:
            await ssh.open()
        assert refused.value.why is why
        if isinstance(made, StandIn):
            await made.is_closed.wait()

    with_server(made, test)


def test_a_replica_has_so_many_at_once(monkeypatch):
    monkeypatch.setattr(node_ssh, "MAX_OF_REPLICA", 1)
    server = StandIn(b"olga\nSSH-2.0-x\r\n")

    async def test(ssh):
        await ssh.open()
        with pytest.raises(OpenRefused) as refused:
            await ssh.open()
        assert refused.value.why is StreamRefusal.TOO_MANY_STREAMS

    with_server(server, test)


def test_a_tunnel_that_is_cut_ends_the_server():
    server = StandIn(b"olga\nSSH-2.0-x\r\n")

    async def test(ssh):
        await ssh.open()
        await ssh.link.close(1000, "")
        await server.is_closed.wait()

    with_server(server, test)


def test_a_server_that_ends_does_not_wait_for_a_client_that_stays(monkeypatch):
    monkeypatch.setattr(node_ssh, "LAST_SECONDS", 0.01)
    server = StandIn(b"olga\nSSH-2.0-x\r\n", b"", code=0)

    async def test(ssh):
        stream, _, _ = await ssh.open()
        assert await stream.read() == b""
        await server.is_closed.wait()

    with_server(server, test)


def test_one_that_is_idle_ends():
    server = StandIn(b"olga\nSSH-2.0-x\r\n")

    async def test(ssh):
        stream, _, _ = await ssh.open(idle_seconds=1)
        with pytest.raises(StreamReset):
            await stream.read()
        await server.is_closed.wait()

    with_server(server, test)


def test_targets_and_greetings_are_as_they_were_sent_and_garbage_is_refused():
    target = SshReplica(None, KEY, None).target()
    assert read_target(write_target(target)) == target
    greeting = SshGreeting(login="olga", host_key=KEY)
    line = write_greeting(greeting)
    assert read_greeting(line + b"SSH") == (greeting, b"SSH")
    assert read_greeting(line[:-1]) is None
    for garbage in (b"{}\n", b"x\n", b"x" * 512, line.replace(b"olga", b"-olga")):
        with pytest.raises(GreetingRefused):
            read_greeting(garbage)
    for garbage in (b"x", b"[]", b'{"client_key":"ssh-ed25519 x"}', b'{"client_key":"A\\nB"}'):
        with pytest.raises((ContractError, ValueError)):
            read_request(garbage)


def test_the_outputs_of_an_exec_are_told_apart_however_they_were_cut():
    frames = b"".join(
        bytes([kind, 0, 0, 0]) + len(text).to_bytes(4) + text
        for kind, text in ((1, b"one"), (2, b"trouble"), (1, b""), (1, b"two"))
    )
    for size in (1, 3, 9, len(frames)):
        reader, output = ExecFrames(), b""
        for at in range(0, len(frames), size):
            output += reader.feed(frames[at : at + size])
        assert (output, reader.messages) == (b"onetwo", b"trouble")


def test_the_files_of_a_server_lie_where_no_other_job_reaches():
    own = {"Type": "bind", "Source": "/var/lib/tessera/replicas/1/tmp", "Destination": "/var/tmp"}
    shared = {"Type": "bind", "Source": "/dev/shm/tessera-mps-1", "Destination": "/dev/shm"}
    assert files_place([own]) == "/dev/shm"
    assert files_place([own, shared]) == "/var/tmp"


def test_a_server_with_many_messages_waits_for_nobody_to_read_them():
    pipes = ServerPipes()
    try:
        assert not os.get_blocking(pipes.server_messages)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(pipes.server_messages, b"connect_to: failed." * 100)
        assert pipes.messages().startswith(b"connect_to")
    finally:
        pipes.close_server()
        pipes.close()
