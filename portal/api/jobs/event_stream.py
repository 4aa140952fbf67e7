"""Server-sent events of jobs, as they happen. A message's id is the event's primary key.

A client that lost its stream sends `Last-Event-ID` and misses nothing; if that cannot be guaranteed
any more, it gets 410. No database connection is held between reads: each read is one short call in
a thread, sharing a limit with the streams of pages. All streams end when the server shuts down.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import Throttled

from portal.accounts.models import Membership, User
from portal.accounts.selectors import live_tokens
from portal.api.jobs.long_poll import release_connection
from portal.api.jobs.request_serializers import StreamQuerySerializer
from portal.api.jobs.serializers import EventSerializer
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.audit.models import Event
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.event_stream import (
    HEARTBEAT_SECONDS,
    event_stream_response,
    lifetime_seconds,
    retry_directive,
    shared_read,
)
from portal.jobs.selectors import job_visible
from portal.live.listener import subscribe
from portal.stream_access import RETRY_SECONDS, StreamOwner

PACE_SECONDS = 0.5
MAX_BATCH = 200
# Transactions may commit in another order than their events were numbered: look this far back.
OVERLAP = 200
MAX_EVENT_ID = (1 << 63) - 1
LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID",
    {"type": "integer", "minimum": 0},
    OpenApiParameter.HEADER,
    description="The last event that the client received. Takes precedence over `since`",
)


@dataclass
class EventSubscriber:
    """Who listens to the stream, and which events were sent."""

    user_id: int
    token_id: str | None
    # Only events of this job; None: of every visible job.
    job_id: int | None
    # Events up to this id are not sent.
    since: int
    # The largest id sent, and the ids sent within OVERLAP of it.
    last_sent: int = 0
    sent: set[int] = field(default_factory=set)

    def take_unsent(self, ids: list[int]) -> list[int]:
        """The ids to send now, marked as sent."""
        unsent = [number for number in ids if number not in self.sent][:MAX_BATCH]
        if unsent:
            self.last_sent = max(self.last_sent, unsent[-1])
            oldest = self.last_sent - OVERLAP
            self.sent = {number for number in self.sent.union(unsent) if number > oldest}
        return unsent

    @property
    def floor(self) -> int:
        """Only later ids can still be unsent."""
        return max(self.since, self.last_sent - OVERLAP)


class EventStream(ApiView):
    @extend_schema(
        operation_id="event_stream",
        parameters=[StreamQuerySerializer, LAST_EVENT_ID],
        responses={
            (200, "text/event-stream"): OpenApiResponse(
                OpenApiTypes.STR,
                "One message for each event: `id` is the event's id, `data` an Event as JSON. "
                "A comment every 15 s. The stream ends after 10 min; then connect again",
            )
        },
    )
    def get(self, request: ApiRequest) -> StreamingHttpResponse:
        """Events of the jobs you see, or of one job, from now on or after an id."""
        query = request.validated_query(StreamQuerySerializer)
        label = query.get("job")
        job = job_visible(request.caller, label).pk if label else None
        token = request.token.pk if request.token else None
        since = _start(request, query.get("since"))
        subscriber = EventSubscriber(request.caller.pk, token, job, since)
        # This thread makes no more queries: its connection is not kept while the stream lives.
        release_connection()
        session = "" if request.token else request.session.session_key or ""
        response = event_stream_response(
            messages(subscriber), StreamOwner(request.caller.pk, session)
        )
        if not isinstance(response, StreamingHttpResponse):
            raise Throttled(RETRY_SECONDS, "Too many event streams are open. Close some of them")
        return response


async def messages(subscriber: EventSubscriber) -> AsyncIterator[str]:
    """The messages, until the stream's lifetime is over or the caller's access ends."""
    end = time.monotonic() + lifetime_seconds()
    key = "job:*" if subscriber.job_id is None else f"job:{subscriber.job_id}"
    with subscribe(key) as bell:
        yield retry_directive()
        while time.monotonic() < end and not bell.is_closing:
            batch = await shared_read(_next_batch, subscriber)
            if batch is None:
                return
            for message in batch:
                yield message
            if len(batch) == MAX_BATCH:
                continue
            if not await bell.wait(HEARTBEAT_SECONDS):
                yield ": beat\n\n"
            elif not bell.is_closing:
                await asyncio.sleep(PACE_SECONDS)


def _start(request: ApiRequest, since: int | None) -> int:
    header = request.headers.get("Last-Event-ID", "").strip()
    if header.isascii() and header.isdigit() and int(header) <= MAX_EVENT_ID:
        since = int(header)
    newest = _edge_id("-id")
    if since is None:
        return newest
    if since > newest or 0 < since < _edge_id("id") - 1:
        sentence = (
            f"Event {since} has expired, so later events may be missing. "
            "Read the jobs again and start the stream without since"
        )
        raise Refused(ErrorCode.EVENTS_GONE, sentence, "since")
    return since


def _edge_id(order: str) -> int:
    """The id of the oldest (`id`) or the newest (`-id`) event; 0 if there is none."""
    return Event.objects.order_by(order).values_list("id", flat=True).first() or 0


def _next_batch(subscriber: EventSubscriber) -> list[str] | None:
    """New events as messages; None if the caller's access has ended."""
    user = _current_user(subscriber)
    if user is None:
        return None
    rows = _visible(user, subscriber).filter(id__gt=subscriber.floor).order_by("id")
    ids = subscriber.take_unsent(list(rows.values_list("id", flat=True)[: MAX_BATCH + OVERLAP]))
    return [event_message(row) for row in Event.objects.filter(pk__in=ids).order_by("id")]


def _current_user(subscriber: EventSubscriber) -> User | None:
    token = subscriber.token_id
    if token is not None and not live_tokens().filter(pk=token).exists():
        return None
    return User.objects.filter(pk=subscriber.user_id, is_active=True).first()


def _visible(user: User, subscriber: EventSubscriber) -> QuerySet[Event]:
    rows = Event.objects.filter(job__isnull=False)
    if subscriber.job_id is not None:
        rows = rows.filter(job_id=subscriber.job_id)
    if user.is_platform_admin:
        return rows
    mine = Membership.objects.filter(user=user).values("project_id")
    return rows.filter(job__project_id__in=mine)


def event_message(row: Event) -> str:
    """The event as one message of the stream."""
    data = json.dumps(EventSerializer(row).data, ensure_ascii=False, default=str)
    return f"id: {row.pk}\nevent: {row.noun}\ndata: {data}\n\n"
