"""OpenSSH's clients to one replica, through a tunnel in memory."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agents.contract.ssh import SshGreeting, SshTarget, read_greeting
from agents.contract.tunnel import read_target, write_target
from agents.terminals.node_ssh import NodeSsh
from agents.tunnel.link import TunnelStream
from agents.tunnel.splice import SocketStream, splice
from tests.support.memory_tunnel import tunnel
from tests.support.ssh_clients import NAME, a_key, client_options, know

SECONDS = 60  # a bound for what never comes


@dataclass
class SshReplica:
    """One replica as ssh sees it: a port of this machine, each connection a stream of the node."""

    folder: Path
    client_key: str
    link: object
    login: str = ""
    port: int = 0

    def target(self, **fields) -> SshTarget:
        own = {"client_key": self.client_key, "attempt": 7, "rank": 0, "idle_seconds": 600}
        return SshTarget(**own | fields)

    async def open(self, **fields) -> tuple[TunnelStream, SshGreeting, bytes]:
        """A stream that has greeted, and the first bytes of SSH."""
        async with asyncio.timeout(SECONDS):
            stream = await self.link.open(write_target(self.target(**fields)))
            said = b""
            while not (found := read_greeting(said)):
                said += await stream.read()
        return stream, *found

    async def log_in(self) -> None:
        """Learn as whom."""
        stream, greeting, _ = await self.open()
        stream.abort()
        self.login = greeting.login

    async def run(self, program: str, *words: str, stdin: bytes = b"") -> tuple[int, bytes]:
        """Exit code and output of a client. `{}` in a word is the replica."""
        options = client_options(self.folder, self.port, self.login)
        command = [program, *options, *(word.replace("{}", NAME) for word in words)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
        try:
            async with asyncio.timeout(SECONDS):
                output, _ = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                process.kill()
        return process.returncode, output

    async def accept(self, reader, writer) -> None:
        stream, greeting, first = await self.open()
        know(self.folder, greeting)
        local = SocketStream(reader, writer)
        await local.write(first)
        await splice(local, stream)
        local.close()


@asynccontextmanager
async def ssh_replica(ssh: NodeSsh, folder: Path):
    """Of attempt 7 and rank 0."""

    async def serve(incoming):
        await ssh.serve(incoming, read_target(incoming.target))

    async with tunnel(serve) as (portal, _, _):
        replica = SshReplica(folder, a_key(folder), portal)
        server = await asyncio.start_server(replica.accept, "127.0.0.1", 0)
        replica.port = server.sockets[0].getsockname()[1]
        try:
            yield replica
        finally:
            server.close()
            await ssh.close()
