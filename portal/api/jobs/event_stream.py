"""What happens, as it happens: server-sent events whose id is the event's primary key.

A client that lost its stream sends `Last-Event-ID` and misses nothing; where that can no longer be
promised it is told so (410). No database connection is held while it waits: each look is one short
call in a thread, in its turn with those of the pages' streams. All end when the server goes down.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from portal.accounts.models import ApiToken, Membership, User
from portal.api.jobs.long_poll import release
from portal.api.jobs.queries import StreamQuery
from portal.api.jobs.responses import asked
from portal.api.jobs.serializers import EventShape
from portal.api.protocol.authentication import caller
from portal.audit.models import Event
from portal.errors import Refused
from portal.jobs.selectors import job_visible
from portal.live.listener import subscribe
from portal.web.streaming.event_stream import HEARTBEAT_SECONDS, life, look, retry, streamed

PACE_SECONDS = 0.5
MOST_AT_ONCE = 200
# Two transactions may commit in another order than their events were numbered in.
OVERLAP = 200
LARGEST = (1 << 63) - 1
LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID",
    {"type": "integer", "minimum": 0},
    OpenApiParameter.HEADER,
    description="what the client has seen; stronger than `since`",
)


@dataclass
class Watcher:
    """Who watches, and what was sent. `since`: nothing up to it is sent."""

    user_id: int
    token_id: str | None
    job: int | None
    since: int
    top: int = 0
    sent: set[int] = field(default_factory=set)

    def fresh(self, ids: list[int]) -> list[int]:
        found = [number for number in ids if number not in self.sent][:MOST_AT_ONCE]
        if found:
            self.top = max(self.top, found[-1])
            self.sent = {n for n in self.sent.union(found) if n > self.top - OVERLAP}
        return found

    @property
    def floor(self) -> int:
        return max(self.since, self.top - OVERLAP)


class EventStream(APIView):
    @extend_schema(
        operation_id="event_stream",
        parameters=[StreamQuery, LAST_EVENT_ID],
        responses={
            (200, "text/event-stream"): OpenApiResponse(
                OpenApiTypes.STR,
                "One message for each event: `id` is the event's, `data` an Event in JSON. "
                "A comment every 15 s; after 10 min the client connects again",
            )
        },
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """The events of the jobs that the caller sees, or of one; from now on, or after an id."""
        query = asked(StreamQuery, request.query_params)
        label = query.get("job")
        job = job_visible(caller(request), label).pk if label else None
        token = request.auth.pk if isinstance(request.auth, ApiToken) else None
        watcher = Watcher(caller(request).pk, token, job, _start(request, query.get("since")))
        # This thread has nothing more to ask: its connection is not kept for the stream's life.
        release()
        return streamed(events(watcher))


async def events(watcher: Watcher) -> AsyncIterator[str]:
    """The messages, until the stream has lived its time or its caller may no longer look."""
    end = time.monotonic() + life()
    key = "job:*" if watcher.job is None else f"job:{watcher.job}"
    with subscribe(key) as bell:
        yield retry()
        while time.monotonic() < end and not bell.is_closing:
            found = await look(_look, watcher)
            if found is None:
                return
            for message in found:
                yield message
            if len(found) == MOST_AT_ONCE:
                continue
            if not await bell.wait(HEARTBEAT_SECONDS):
                yield ": beat\n\n"
            elif not bell.is_closing:
                await asyncio.sleep(PACE_SECONDS)


def _start(request: Request, since: int | None) -> int:
    header = request.headers.get("Last-Event-ID", "").strip()
    if header.isascii() and header.isdigit() and int(header) <= LARGEST:
        since = int(header)
    newest = _number("-id")
    if since is None:
        return newest
    if since > newest or 0 < since < _number("id") - 1:
        sentence = (
            f"Event {since} is not among those that are kept: what came after it cannot be told. "
            "Read the jobs anew and watch without since"
        )
        raise Refused("events_gone", sentence, "since", 410)
    return since


def _number(order: str) -> int:
    """Of the oldest or the newest event; 0 where there is none."""
    return Event.objects.order_by(order).values_list("id", flat=True).first() or 0


def _look(watcher: Watcher) -> list[str] | None:
    """What is new, as messages; None where the caller may no longer look."""
    user = _still_allowed(watcher)
    if user is None:
        return None
    rows = _visible(user, watcher).filter(id__gt=watcher.floor).order_by("id")
    ids = watcher.fresh(list(rows.values_list("id", flat=True)[: MOST_AT_ONCE + OVERLAP]))
    return [_message(row) for row in Event.objects.filter(pk__in=ids).order_by("id")]


def _still_allowed(watcher: Watcher) -> User | None:
    if watcher.token_id is not None:
        token = ApiToken.objects.filter(pk=watcher.token_id, expiry__gt=timezone.now())
        if not token.exists():
            return None
    return User.objects.filter(pk=watcher.user_id, is_active=True).first()


def _visible(user: User, watcher: Watcher) -> QuerySet[Event]:
    rows = Event.objects.filter(job__isnull=False)
    if watcher.job is not None:
        rows = rows.filter(job_id=watcher.job)
    if user.is_platform_admin:
        return rows
    mine = Membership.objects.filter(user=user).values("project_id")
    return rows.filter(job__project_id__in=mine)


def _message(row: Event) -> str:
    data = json.dumps(EventShape(row).data, ensure_ascii=False, default=str)
    return f"id: {row.pk}\nevent: {row.noun}\ndata: {data}\n\n"
