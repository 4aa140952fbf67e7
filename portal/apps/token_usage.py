"""What is called with tokens for apps: counted in this process, written in batches.

A busy token costs one UPDATE each `FLUSH_SECONDS` and process, however many requests it makes. A
process that is killed loses what it has counted since.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import F
from django.utils import timezone

from portal.apps.models import AppToken
from portal.apps.threads import run_in_thread
from portal.asgi_scope import Message, Receive, Send

FLUSH_SECONDS = 10.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class UsageCount:
    """Of one token, since it was last written. Bytes are those of bodies and messages."""

    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    used_at: datetime | None = None


class TokenUsage:
    """The counts of one event loop."""

    def __init__(self, seconds: float = FLUSH_SECONDS) -> None:
        self._seconds = seconds
        self._counts: defaultdict[int, UsageCount] = defaultdict(UsageCount)
        self._task: asyncio.Task[None] | None = None

    def count_call(self, token_pk: int, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """Count one request, or WebSocket, and what passes by the returned ways."""
        self._count(token_pk).requests += 1

        async def counted_receive() -> Message:
            message = await receive()
            self._count(token_pk).bytes_in += _size(message)
            return message

        async def counted_send(message: Message) -> None:
            await send(message)
            self._count(token_pk).bytes_out += _size(message)

        return counted_receive, counted_send

    async def flush(self) -> None:
        """Write what was counted. While the database is away, it is kept for the next time."""
        counts, self._counts = self._counts, defaultdict(UsageCount)
        if not counts:
            return
        try:
            await run_in_thread(token_usage_write, counts)
        except (DatabaseError, InterfaceError) as error:
            log.warning("what tokens for apps were used for is not written yet: %s", error)
            for pk, count in counts.items():
                kept = self._count(pk)
                kept.requests += count.requests
                kept.bytes_in += count.bytes_in
                kept.bytes_out += count.bytes_out

    async def close(self) -> None:
        """At the end of the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.flush()

    def _count(self, token_pk: int) -> UsageCount:
        count = self._counts[token_pk]
        count.used_at = timezone.now()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_soon())
        return count

    async def _write_soon(self) -> None:
        """Runs while there is something to write."""
        while self._counts:
            await asyncio.sleep(self._seconds)
            await self.flush()


def token_usage_write(counts: Mapping[int, UsageCount]) -> None:
    """Add the counts to those of their tokens, by primary key; of tokens that are gone to none."""
    with transaction.atomic():
        # In one order, so that processes do not wait for each other in a circle.
        for pk, count in sorted(counts.items()):
            AppToken.objects.filter(pk=pk).update(
                requests=F("requests") + count.requests,
                bytes_in=F("bytes_in") + count.bytes_in,
                bytes_out=F("bytes_out") + count.bytes_out,
                last_used_at=count.used_at,
            )


def _size(message: Message) -> int:
    body = message.get("body") or message.get("bytes") or message.get("text") or b""
    return len(body.encode()) if isinstance(body, str) else len(body)
