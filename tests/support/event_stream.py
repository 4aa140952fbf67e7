"""An event stream as a browser receives it, through all of the portal's middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from django.test import AsyncClient

from portal.accounts.models import User
from portal.live.listener import listener


@dataclass(frozen=True)
class Event:
    name: str
    data: str = ""
    id: str = ""


@asynccontextmanager
async def opened(user: User, path: str, *, last: str = "") -> AsyncIterator[AsyncIterator[Event]]:
    """The events of one connection; `last` is the id of the last event that the browser has."""
    client = AsyncClient()
    await client.aforce_login(user)
    answer = await client.get(path, headers={"Last-Event-ID": last} if last else {})
    assert answer.status_code == 200
    pieces = aiter(answer.streaming_content)
    try:
        yield _events(pieces)
    finally:
        await pieces.aclose()


async def _events(pieces: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    async for piece in pieces:
        fields: dict[str, list[str]] = {}
        for line in piece.decode().splitlines():
            name, _, value = line.partition(": ")
            fields.setdefault(name, []).append(value)
        if "event" in fields:
            data = "\n".join(fields.get("data", ()))
            yield Event(fields["event"][0], data, fields.get("id", [""])[0])


def first_event(user: User, path: str, *, last: str = "") -> Event:
    async def first() -> Event:
        try:
            async with opened(user, path, last=last) as events:
                return await anext(events)
        finally:
            await listener().close()

    return asyncio.run(first())
