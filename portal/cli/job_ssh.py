"""The bytes of one SSH connection to a job, through one WebSocket of the portal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus, WebSocketException

from agents.contract.ssh import (
    GreetingRefused,
    SshGreeting,
    SshRequest,
    read_greeting,
    write_request,
)
from agents.contract.tunnel import REFUSAL_SENTENCES, StreamRefusal
from agents.tunnel.client_socket import ClientSocket
from agents.tunnel.link import OpenRefused, StreamReset, TunnelLink, TunnelStream
from agents.tunnel.splice import splice
from portal.cli.client import api_path
from portal.cli.config import PortalAccess
from portal.cli.exit_codes import CommandFailed
from portal.cli.job_sockets import denied_failure, dial_job, refused_failure, unreachable_failure
from portal.cli.port_forward import standard_stream
from portal.cli.ssh_client import SshFolder, host_name

CUT = "The connection was cut"


@dataclass(frozen=True)
class JobSsh:
    """SSH in one replica, for the key of this folder."""

    access: PortalAccess
    job: str
    rank: int
    folder: SshFolder

    async def login(self) -> str:
        """The user of the replica. Raises CommandFailed, also where no server can be started."""
        async with self._opened() as (_, stream):
            greeting, _ = await _greeted(stream)
            stream.abort()
            return greeting.login

    async def run_on_stdio(self) -> None:
        """One connection, between standard input and output, until both directions have ended.
        Raises CommandFailed."""
        async with self._opened() as (connection, stream):
            greeting, first = await _greeted(stream)
            self.folder.know(host_name(self.job, self.rank), greeting)
            local = await standard_stream()
            await local.write(first)
            if not await splice(local, stream):
                raise denied_failure(connection.close_reason or CUT)
            await local.flush()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[ClientConnection, TunnelStream]]:
        """Raises CommandFailed."""
        path = api_path("jobs", self.job, "ssh")
        url = f"{self.access.url}/api/v1/{path}?rank={self.rank}"
        request = write_request(SshRequest(client_key=self.folder.client_key()))
        try:
            async with dial_job(self.access, url) as connection:
                link = TunnelLink(ClientSocket(connection))
                carrying = asyncio.ensure_future(link.run())
                try:
                    yield connection, await link.open(request)
                except StreamReset:
                    raise denied_failure(connection.close_reason or CUT) from None
                finally:
                    carrying.cancel()
                    await asyncio.gather(carrying, return_exceptions=True)
        except OpenRefused as refused:
            again = "tessera logs" if refused.why is StreamRefusal.REPLICA_UNKNOWN else ""
            sentence = REFUSAL_SENTENCES[refused.why]
            raise CommandFailed(str(refused.why), sentence, again) from refused
        except InvalidStatus as refused:
            raise refused_failure(refused) from refused
        except (OSError, TimeoutError, WebSocketException) as error:
            raise unreachable_failure(self.access.url, error) from error


async def _greeted(stream: TunnelStream) -> tuple[SshGreeting, bytes]:
    """The node's greeting, and the first bytes of SSH. Raises CommandFailed, StreamReset."""
    said = b""
    while data := await stream.read():
        said += data
        try:
            if found := read_greeting(said):
                return found
        except GreetingRefused as refused:
            raise CommandFailed(
                "ssh_greeting", f"The node sent no greeting: {refused}"
            ) from refused
    raise CommandFailed("cut", CUT)
