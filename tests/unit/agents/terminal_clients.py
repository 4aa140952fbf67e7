"""A client of terminals over a tunnel in memory: what it typed, what it was shown."""

import asyncio
from contextlib import asynccontextmanager

from agents.contract.terminal import (
    MessageReader,
    MessageType,
    TerminalMessage,
    TerminalTarget,
    input_messages,
    read_end,
    resize_message,
)
from agents.contract.tunnel import read_target, write_target
from agents.terminals.node_terminals import NodeTerminals
from tests.support.memory_tunnel import tunnel

SECONDS = 30  # a bound for what never comes


def a_target(**fields) -> TerminalTarget:
    fields = {
        "attempt": 1,
        "rank": 0,
        "terminal": "0" * 32,
        "is_new": True,
        "received": 0,
        "columns": 80,
        "rows": 24,
        "program": "",
        "idle_seconds": 600,
    } | fields
    return TerminalTarget(**fields)


class Client:
    """One attachment; `received` is where the next one goes on."""

    def __init__(self, stream):
        self.stream = stream
        self.reader = MessageReader()
        self.begun_at = None
        self.received = 0
        self.shown = b""
        self.end = None

    async def step(self) -> bool:
        """Read once; False at the end of the stream."""
        async with asyncio.timeout(SECONDS):
            data = await self.stream.read()
        for message in self.reader.feed(data):
            if message.type is MessageType.BEGUN:
                self.begun_at = self.received = int.from_bytes(message.payload)
            elif message.type is MessageType.OUTPUT:
                self.shown += message.payload
                self.received += len(message.payload)
            elif message.type is MessageType.ENDED:
                self.end = read_end(message.payload)
        return bool(data)

    async def until(self, words: bytes) -> bytes:
        """What was shown, up to these words; the rest stays."""
        while words not in self.shown:
            assert await self.step(), (self.shown, self.end)
        at = self.shown.index(words) + len(words)
        before, self.shown = self.shown[:at], self.shown[at:]
        return before

    async def until_end(self):
        """Why it ended and the exit code; ends this side, as clients do."""
        while self.end is None:
            assert await self.step(), self.shown
        await self.stream.end()
        return self.end

    async def type(self, text: str) -> None:
        await self.stream.write(input_messages(text.encode()))

    async def resize(self, columns: int, rows: int) -> None:
        await self.stream.write(resize_message(columns, rows))

    async def hang_up(self) -> None:
        await self.stream.write(TerminalMessage(MessageType.HANG_UP).to_bytes())


@asynccontextmanager
async def node(terminals: NodeTerminals):
    """Opens terminals as the portal does: `await attach(target)` is a Client."""

    async def serve(incoming):
        await terminals.serve(incoming, read_target(incoming.target))

    async with tunnel(serve) as (portal, _, _):

        async def attach(target: TerminalTarget) -> Client:
            async with asyncio.timeout(SECONDS):
                return Client(await portal.open(write_target(target)))

        try:
            yield attach
        finally:
            await terminals.close()
