"""The WebSocket of the side that dials, as a link uses it."""

from contextlib import suppress

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agents.tunnel.link import SocketClosed


class Dial(connect):
    """`websockets.connect`, but for redirects: a token goes only to the address that it is for."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class ClientSocket:
    """An open connection of the library `websockets`, which also answers and sends pings."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, message: bytes) -> None:
        try:
            await self._connection.send(message)
        except ConnectionClosed as closed:
            raise SocketClosed from closed

    async def receive(self) -> bytes:
        try:
            message = await self._connection.recv()
        except ConnectionClosed as closed:
            raise SocketClosed from closed
        # A text is no frame, which the link says.
        return message if isinstance(message, bytes) else b""

    async def close(self, code: int, reason: str) -> None:
        with suppress(ConnectionClosed):
            await self._connection.close(code, reason)
