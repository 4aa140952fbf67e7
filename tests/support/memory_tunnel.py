"""A tunnel over a socket in memory: both sides in one process."""

import asyncio
from contextlib import asynccontextmanager

from agents.tunnel.link import SocketClosed, TunnelLink


class MemorySocket:
    """One end of a WebSocket that holds two messages each way."""

    def __init__(self, incoming, outgoing):
        self.incoming, self.outgoing = incoming, outgoing
        self.closed_with = None

    async def send(self, message):
        await self.outgoing.put(message)

    async def receive(self):
        message = await self.incoming.get()
        if message is None:
            raise SocketClosed
        return message

    async def close(self, code, reason):
        self.closed_with = (code, reason)
        for queue in (self.incoming, self.outgoing):
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)


@asynccontextmanager
async def tunnel(serve):
    there, back = asyncio.Queue(2), asyncio.Queue(2)
    sockets = MemorySocket(back, there), MemorySocket(there, back)
    portal, agent = TunnelLink(sockets[0]), TunnelLink(sockets[1], serve)
    tasks = [asyncio.ensure_future(portal.run()), asyncio.ensure_future(agent.run())]
    try:
        yield portal, agent, sockets
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
