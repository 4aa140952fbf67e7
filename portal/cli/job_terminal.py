"""A terminal in a job, in the terminal of this machine: attached again after a cut."""

import asyncio
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus, WebSocketException

from agents.contract.codec import encode
from agents.contract.terminal import (
    END_SENTENCES,
    KEEP_SECONDS,
    PROGRAM_PATTERN,
    MessageReader,
    MessageType,
    TerminalEnd,
    TerminalMessage,
    TerminalRequest,
    input_messages,
    read_end,
    resize_message,
)
from agents.contract.tunnel import REFUSAL_SENTENCES, StreamRefusal
from agents.tunnel.client_socket import ClientSocket
from agents.tunnel.link import OpenRefused, StreamReset, TunnelLink, TunnelStream
from agents.tunnel.multiplexer import TunnelBounds
from portal.cli.client import BUSY_STATUSES
from portal.cli.config import PortalAccess
from portal.cli.exit_codes import CommandFailed
from portal.cli.job_sockets import (
    POLICY,
    denied_failure,
    dial_job,
    refused_failure,
    unreachable_failure,
)
from portal.cli.local_screen import CLEAR, LocalScreen

__all__ = ["PROGRAM_PATTERN", "JobTerminal", "end_sentence", "run_terminal"]

# Little is under way at once, so that what is typed shows its effect soon.
BOUNDS = TunnelBounds(streams=1, budget_bytes=1 << 20)
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 3.0
CTRL_C = b"\x03"
# After Enter, as in ssh.
LEAVE = b"~."
# What a new try may change.
PASSING_REFUSALS = (StreamRefusal.NO_TUNNEL, StreamRefusal.TIMED_OUT)
CUT = b"\r\n[The connection was cut. Attaching again; Ctrl-C gives up]\r\n"


@dataclass
class LeaveKeys:
    """Finds Enter, ~ and . among what is typed, however it was cut."""

    _typed: bytes = b"\r"

    def is_leave(self, data: bytes) -> bool:
        self._typed = (self._typed + data)[-len(data) - 2 :]
        return b"\r" + LEAVE in self._typed or b"\n" + LEAVE in self._typed


@dataclass
class JobTerminal:
    """One terminal, until its shell ends."""

    access: PortalAccess
    url: str
    # For people.
    name: str
    program: str = ""
    _terminal: str = field(default_factory=lambda: secrets.token_hex(16))
    _received: int = 0
    _is_begun: bool = False
    _end: tuple[TerminalEnd, int] | None = None
    _leave: LeaveKeys = field(default_factory=LeaveKeys)

    async def run(self, screen: LocalScreen) -> tuple[TerminalEnd, int]:
        """Why it ended, and the exit code of the shell. Raises CommandFailed."""
        loop = asyncio.get_running_loop()
        cut_at, pause = loop.time(), FIRST_PAUSE_SECONDS
        while True:
            try:
                async with dial_job(self.access, self.url) as connection:
                    has_been_begun = await self._attach(connection, screen)
                if self._end:
                    return self._end
                if connection.close_code == POLICY:
                    raise denied_failure(connection.close_reason or "")
                if has_been_begun:
                    cut_at, pause = loop.time(), FIRST_PAUSE_SECONDS
                    await screen.write(CUT)
            except InvalidStatus as refused:
                # What the portal, or a proxy before it, says while the portal restarts.
                if not self._is_begun or refused.response.status_code not in BUSY_STATUSES:
                    raise refused_failure(refused) from refused
            except (OSError, TimeoutError, WebSocketException) as error:
                if not self._is_begun:
                    raise unreachable_failure(self.access.url, error) from error
            if loop.time() - cut_at > KEEP_SECONDS:
                sentence = "The portal or the node stayed away, and the terminal has ended"
                raise CommandFailed("terminal_gone", sentence, "tessera logs")
            await self._pause(screen, pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def _attach(self, connection: ClientConnection, screen: LocalScreen) -> bool:
        """Until its end or a cut. Whether it was attached. Raises CommandFailed."""
        link = TunnelLink(ClientSocket(connection), bounds=BOUNDS)
        carrying = asyncio.ensure_future(link.run())
        try:
            stream = await link.open(self._request(screen))
            await self._carry(stream, screen)
            return True
        except OpenRefused as refused:
            if self._is_begun and refused.why in PASSING_REFUSALS:
                return False
            again = "tessera logs" if refused.why is StreamRefusal.REPLICA_UNKNOWN else ""
            sentence = REFUSAL_SENTENCES[refused.why]
            raise CommandFailed(str(refused.why), sentence, again) from refused
        except StreamReset:
            return self._is_begun
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)

    def _request(self, screen: LocalScreen) -> bytes:
        columns, rows = screen.size
        request = TerminalRequest(
            terminal=self._terminal,
            is_new=not self._is_begun,
            received=self._received,
            columns=columns,
            rows=rows,
            program=self.program,
        )
        return json.dumps(encode(request), separators=(",", ":")).encode()

    async def _carry(self, stream: TunnelStream, screen: LocalScreen) -> None:
        """Raises StreamReset at a cut."""
        tasks = [
            asyncio.ensure_future(self._show(stream, screen)),
            asyncio.ensure_future(self._type(stream, screen)),
            asyncio.ensure_future(self._follow_size(stream, screen)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _show(self, stream: TunnelStream, screen: LocalScreen) -> None:
        reader = MessageReader()
        while data := await stream.read():
            for message in reader.feed(data):
                if message.type is MessageType.BEGUN:
                    offset = int.from_bytes(message.payload)
                    if self._is_begun and offset != self._received:
                        await screen.write(CLEAR)
                    self._received, self._is_begun = offset, True
                elif message.type is MessageType.OUTPUT:
                    await screen.write(message.payload)
                    self._received += len(message.payload)
                elif message.type is MessageType.ENDED:
                    self._end = read_end(message.payload)
                    with suppress(StreamReset):
                        await stream.end()
                    return

    async def _type(self, stream: TunnelStream, screen: LocalScreen) -> None:
        while data := await screen.read():
            if self._leave.is_leave(data):
                break
            await stream.write(input_messages(data))
        # Left, or our own terminal is gone: nobody comes back.
        await stream.write(TerminalMessage(MessageType.HANG_UP).to_bytes())
        # The shell's end follows.
        await asyncio.Event().wait()

    async def _follow_size(self, stream: TunnelStream, screen: LocalScreen) -> None:
        while True:
            await screen.resized.wait()
            screen.resized.clear()
            await stream.write(resize_message(*screen.size))

    async def _pause(self, screen: LocalScreen, seconds: float) -> None:
        """What is typed meanwhile is lost; Ctrl-C gives up. Raises CommandFailed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while data := await screen.read():
                    if CTRL_C in data:
                        break
                raise CommandFailed("cut", "The connection was cut", f"tessera shell {self.name}")


async def run_terminal(terminal: JobTerminal) -> tuple[TerminalEnd, int]:
    """In the terminal of this machine. Raises CommandFailed."""
    async with LocalScreen() as screen:
        return await terminal.run(screen)


def end_sentence(why: TerminalEnd) -> str:
    """Empty for the end that its user has made."""
    return "" if why is TerminalEnd.EXITED else END_SENTENCES[why]
