"""Connections of this machine to a port of a job, through one WebSocket of the portal."""

import asyncio
import contextlib
import sys
from dataclasses import dataclass, field

from websockets.exceptions import InvalidStatus, WebSocketException

from agents.contract.tunnel import REFUSAL_SENTENCES
from agents.tunnel.client_socket import ClientSocket, Dial
from agents.tunnel.link import OpenRefused, StreamReset, TunnelLink
from agents.tunnel.splice import SocketStream, splice
from portal.cli.client import BUSY_STATUSES
from portal.cli.config import PortalAccess
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.job_sockets import (
    POLICY,
    denied_failure,
    dial_job,
    refused_failure,
    unreachable_failure,
)
from portal.cli.output import print_message

LOOPBACK = "127.0.0.1"
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 10.0


@dataclass
class PortForward:
    """Connections of this machine to one port of a job, through one WebSocket."""

    access: PortalAccess
    url: str
    # For people.
    name: str
    local: int
    _link: TunnelLink | None = None
    _has_link: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Until cancelled. Raises CommandFailed."""
        async with contextlib.AsyncExitStack() as stack:
            await self._dial_forever(stack)

    async def run_on_stdio(self) -> None:
        """One connection, between standard input and output, until both directions have ended.
        Raises CommandFailed."""
        try:
            async with self._dial() as connection:
                link = TunnelLink(ClientSocket(connection))
                carrying = asyncio.ensure_future(link.run())
                try:
                    stream = await link.open(b"-")
                    local = await standard_stream()
                    if not await splice(local, stream):
                        raise denied_failure(connection.close_reason or "The connection was cut")
                    await local.flush()
                except OpenRefused as refused:
                    sentence = REFUSAL_SENTENCES[refused.why]
                    raise CommandFailed(str(refused.why), sentence) from refused
                finally:
                    carrying.cancel()
                    await asyncio.gather(carrying, return_exceptions=True)
        except InvalidStatus as refused:
            raise refused_failure(refused) from refused
        except (OSError, TimeoutError, WebSocketException) as error:
            raise unreachable_failure(self.access.url, error) from error

    def _dial(self) -> Dial:
        return dial_job(self.access, self.url)

    async def _dial_forever(self, stack: contextlib.AsyncExitStack) -> None:
        """Listens as soon as the portal has let us in for the first time."""
        pause, is_listening = FIRST_PAUSE_SECONDS, False
        while True:
            try:
                async with self._dial() as connection:
                    if not is_listening:
                        await stack.enter_async_context(await self._listen())
                        is_listening = True
                    pause = FIRST_PAUSE_SECONDS
                    await self._carry(ClientSocket(connection))
                    if connection.close_code == POLICY:
                        raise denied_failure(connection.close_reason or "")
            except InvalidStatus as refused:
                # What the portal, or a proxy before it, says while the portal restarts.
                if not is_listening or refused.response.status_code not in BUSY_STATUSES:
                    raise refused_failure(refused) from refused
            except (OSError, TimeoutError, WebSocketException) as error:
                if not is_listening:
                    raise unreachable_failure(self.access.url, error) from error
            print_message(f"The portal is away. Trying again in {pause:g} s")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def _listen(self) -> asyncio.Server:
        try:
            server = await asyncio.start_server(self._accept, LOOPBACK, self.local)
        except OSError as error:
            sentence = f"Port {self.local} of this machine cannot be used: {error.strerror}"
            again = "the same command with --local 0, which takes a free one"
            raise CommandFailed("port_taken", sentence, again, ExitCode.USAGE) from error
        here = server.sockets[0].getsockname()[1]
        print_message(f"{self.name} is http://{LOOPBACK}:{here} here. Ctrl-C ends this")
        return server

    async def _carry(self, socket: ClientSocket) -> None:
        self._link = TunnelLink(socket)
        self._has_link.set()
        try:
            await self._link.run()
        finally:
            self._has_link.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        local = SocketStream(reader, writer)
        try:
            await self._has_link.wait()
            if self._link is not None:
                await splice(local, await self._link.open(b"-"))
        except OpenRefused as refused:
            print_message(REFUSAL_SENTENCES[refused.why])
            local.abort()
        except StreamReset:
            local.abort()
        finally:
            local.close()


async def standard_stream() -> SocketStream:
    """Standard input and output as a stream. Raises CommandFailed if they are files."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        # The reader's protocol knows when a write may go on.
        pipe, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sys.stdout
        )
    except ValueError as error:
        sentence = "--stdio is for programs such as ssh, which call the command through pipes"
        raise CommandFailed("usage", sentence, "man ssh_config: ProxyCommand") from error
    return SocketStream(reader, asyncio.StreamWriter(pipe, protocol, None, loop))
