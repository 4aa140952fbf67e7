"""Calls that may be sent once more, to another copy, when the first one has answered nothing."""

import asyncio
from typing import Any

from portal.asgi_scope import Receive, Scope, header

# RFC 9110, 9.2.2, without those that change something.
METHODS = ("GET", "HEAD", "OPTIONS")


def is_repeatable(scope: Scope) -> bool:
    """Whether it changes nothing and has no body, by its method and headers."""
    if scope["type"] != "http" or scope["method"] not in METHODS:
        return False
    length = header(scope, "content-length")
    return length in ("", "0") and not header(scope, "transfer-encoding")


class RepeatableReceive:
    """What a server receives of a call; its first message can be received again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._first: Any = None
        self._is_rewound = False

    async def __call__(self) -> Any:
        if self._is_rewound:
            self._is_rewound = False
            return self._first
        message = await self._receive()
        if self._first is None:
            self._first = message
        return message

    async def until_gone(self) -> None:
        """Returns once the caller of a request has hung up that was passed to nobody yet: what is
        read of it here is received again. Only its beginning is read, so of one with a longer body
        this is not seen."""
        if self._first is None:
            self._first = await self._receive()
        self._is_rewound = True
        message = self._first
        while message["type"] != "http.disconnect":
            if message.get("more_body", False):
                await asyncio.Event().wait()
            message = await self._receive()

    def rewind(self) -> None:
        self._is_rewound = self._first is not None
