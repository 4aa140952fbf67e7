"""One terminal: its shell, its last output, and the client that has it, if one has."""

import asyncio
from dataclasses import dataclass

from agents.contract.terminal import (
    KEEP_SECONDS,
    MAX_PAYLOAD_BYTES,
    MessageReader,
    MessageType,
    TerminalEnd,
    TerminalMessage,
    TerminalTarget,
    end_message,
    read_size,
)
from agents.runtime.terminal import ReplicaTerminal
from agents.terminals.output_ring import OutputRing
from agents.tunnel.splice import ByteStream

# How long a client may take to end its own side after it was sent the end.
LAST_SECONDS = 5.0
# As shells report an end by SIGHUP.
HUNG_UP_CODE = 129


@dataclass(slots=True, eq=False)
class TerminalClient:
    """A stream that has the terminal, until it ends or another one takes it."""

    stream: ByteStream
    # The offset up to which it was sent the output.
    sent: int
    is_replaced: bool = False


class TerminalSession:
    """A terminal, until its shell has ended or nobody wants it any more."""

    def __init__(
        self,
        shell: ReplicaTerminal,
        idle_seconds: float,
        keep_seconds: float = KEEP_SECONDS,
        ring: OutputRing | None = None,
    ) -> None:
        self._shell = shell
        self._idle_seconds = idle_seconds
        self._keep_seconds = keep_seconds
        self._ring = ring or OutputRing()
        self._client: TerminalClient | None = None
        self._changed = asyncio.Event()
        self._busy_at = asyncio.get_running_loop().time()
        # What a client is sent last.
        self._end = b""
        self._is_hung_up = False

    async def run(self) -> None:
        """Carry the output. Returns once the shell is gone, with all that it started."""
        pumping = asyncio.ensure_future(self._pump())
        waiting = asyncio.ensure_future(self._while_wanted())
        try:
            await asyncio.wait({pumping, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if pumping.done() and not self._is_hung_up:
                self._finish(TerminalEnd.EXITED, await self._shell.exit_code())
                # Who comes back in time reads the last words of the shell.
                await waiting
            elif self._is_hung_up:
                self._finish(TerminalEnd.EXITED, HUNG_UP_CODE)
            else:
                self._finish(TerminalEnd.IDLE)
        finally:
            for task in (pumping, waiting):
                task.cancel()
            self._finish(TerminalEnd.AGENT_STOPPED)
            try:
                await asyncio.gather(pumping, waiting, return_exceptions=True)
            finally:
                # Also where the agent's end comes during the line before.
                await self._close_shell()

    async def _close_shell(self) -> None:
        """To its end, also where the agent stops meanwhile."""
        closing = asyncio.ensure_future(self._shell.close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    async def attach(self, stream: ByteStream, target: TerminalTarget) -> None:
        """Serve this client, in place of the one before, until it goes or the terminal ends."""
        is_known = self._ring.has(target.received)
        offset = target.received if is_known else self._ring.start
        if self._client:
            self._client.is_replaced = True
        client = self._client = TerminalClient(stream, offset)
        self._wake()
        writing = asyncio.ensure_future(self._write(client))
        reading = asyncio.ensure_future(self._read(client))
        try:
            # A program that draws its screen does so again.
            await self._shell.resize(target.columns, target.rows)
            await asyncio.wait({writing, reading}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and not reading.done():
                # It was sent the end, and ends its own side.
                await asyncio.wait({reading}, timeout=LAST_SECONDS)
            for task in (writing, reading):
                if task.done():
                    task.result()
        finally:
            for task in (writing, reading):
                task.cancel()
            await asyncio.gather(writing, reading, return_exceptions=True)
            if self._client is client:
                self._client = None
                self._busy()

    async def _pump(self) -> None:
        """Until the end of the output. No faster than the client reads, while there is one. What is
        printed for nobody keeps no terminal."""
        while data := await self._shell.read():
            self._ring.append(data)
            if self._client:
                self._busy()
            while self._client and self._client.sent < self._ring.end:
                await self._wait()

    async def _while_wanted(self) -> None:
        """Returns when nobody has come back in time, or nothing happened for the idle time; of a
        shell that has ended, once a client knows."""
        loop = asyncio.get_running_loop()
        while not self._is_hung_up:
            seconds = self._idle_seconds if self._client else self._keep_seconds
            left = self._busy_at + seconds - loop.time()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    await self._wait()
            except TimeoutError:
                continue

    async def _write(self, client: TerminalClient) -> None:
        stream = client.stream
        await stream.write(TerminalMessage(MessageType.BEGUN, client.sent.to_bytes(8)).to_bytes())
        while True:
            if client.is_replaced:
                await stream.write(end_message(TerminalEnd.REPLACED))
                break
            if data := self._ring.read(client.sent, MAX_PAYLOAD_BYTES):
                await stream.write(TerminalMessage(MessageType.OUTPUT, data).to_bytes())
                client.sent += len(data)
                self._wake()
            elif self._end:
                await stream.write(self._end)
                self._is_hung_up = True
                break
            else:
                await self._wait()
        await stream.end()
        self._wake()

    async def _read(self, client: TerminalClient) -> None:
        reader = MessageReader()
        while data := await client.stream.read():
            for message in reader.feed(data):
                if self._client is not client:
                    continue
                self._busy()
                if message.type is MessageType.INPUT:
                    await self._shell.write(message.payload)
                elif message.type is MessageType.RESIZE:
                    await self._shell.resize(*read_size(message.payload))
                elif message.type is MessageType.HANG_UP:
                    self._is_hung_up = True
                    self._wake()

    def _finish(self, why: TerminalEnd, exit_code: int = 0) -> None:
        """The first reason counts."""
        self._end = self._end or end_message(why, exit_code)
        self._wake()

    def _busy(self) -> None:
        self._busy_at = asyncio.get_running_loop().time()
        self._wake()

    def _wake(self) -> None:
        """Whoever waits looks again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self) -> None:
        await self._changed.wait()
