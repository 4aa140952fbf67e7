"""Streams of pages whose live parts are sent complete each time: the lists, the request page and
the cluster.

The id of an event is a digest of its parts. A reconnecting browser names the last one it has, to
any process, and is sent the present parts if they differ. It needs none of the events it missed.
"""

import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2s

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone, translation

from portal.accounts.models import User
from portal.accounts.time_zones import zone_named
from portal.event_stream import (
    HEARTBEAT_SECONDS,
    ShuttingDown,
    event_stream_response,
    last_event_id,
    lifetime_seconds,
    retry_directive,
    shared_read,
    sse_event,
    stream_owner,
    stream_user,
)
from portal.live.listener import listener, subscribe

MAX_INTERVAL_SECONDS = 60


@dataclass(frozen=True, slots=True)
class PageFace:
    """In which language and time zone a page is written."""

    language: str
    time_zone: str

    @contextmanager
    def active(self) -> Iterator[None]:
        with translation.override(self.language), timezone.override(zone_named(self.time_zone)):
            yield


def page_face(request: HttpRequest) -> PageFace:
    """That of the page that opened a stream."""
    language = getattr(request, "LANGUAGE_CODE", "en")
    return PageFace(language, getattr(request, "time_zone", ""))


@dataclass(frozen=True, slots=True)
class PageParts:
    """The fragments of a page."""

    html: str
    bells: tuple[str, ...] = ()
    """They ring when the parts may have changed."""


@dataclass(frozen=True, slots=True)
class PartsEvent:
    """Page parts as an event."""

    event: str
    id: str
    bells: tuple[str, ...]
    seconds: float
    """How long the parts took to read."""


@dataclass(frozen=True, slots=True)
class StreamPace:
    """How often the parts of a page are read."""

    min_seconds: float
    """Between two reads, however often the bells ring."""
    max_seconds: float
    """Between two reads while no bell rings."""
    read_time_factor: int = 1_000
    """A slow read extends the quiet interval to this many times its duration, at most a minute."""

    def interval_after(self, seconds: float) -> float:
        return max(self.max_seconds, min(MAX_INTERVAL_SECONDS, seconds * self.read_time_factor))


async def parts_stream(
    request: HttpRequest,
    read: Callable[[User], PageParts],
    *,
    share_key: Hashable,
    pace: StreamPace,
    bells: Iterable[str] = (),
) -> HttpResponseBase:
    """The response of a stream view: the parts for the signed-in user, or 401."""
    user = await stream_user(request)
    if user is None:
        return HttpResponse(status=401)
    events = part_events(
        user,
        read,
        share_key=share_key,
        face=page_face(request),
        pace=pace,
        bells=bells,
        last_id=last_event_id(request),
    )
    return event_stream_response(events, stream_owner(request, user))


async def part_events(
    user: User,
    read: Callable[[User], PageParts],
    *,
    share_key: Hashable,
    face: PageFace,
    pace: StreamPace,
    bells: Iterable[str] = (),
    last_id: str = "",
) -> AsyncIterator[str]:
    """The parts now, and again after a bell or at the pace's interval; a heartbeat where they are
    those of `last_id`. `share_key`: what the parts depend on besides user, language and zone, so
    that one read serves every stream with the same key."""
    end = time.monotonic() + lifetime_seconds()
    key = (share_key, user.pk, face)
    yield retry_directive()
    with subscribe(*bells) as bell:
        while time.monotonic() < end and not bell.is_closing:
            try:
                parts = await shared_read(_read_parts, user.pk, read, face, share_key=key)
            except ShuttingDown:
                return
            if parts is None:
                # The account may not sign in any more: the page gets no more and stays closed.
                yield sse_event("done")
                return
            yield sse_event("beat") if parts.id == last_id else parts.event
            last_id = parts.id
            listener().set_keys(bell, parts.bells)
            interval = pace.interval_after(parts.seconds)
            next_read = time.monotonic() + interval
            while not await bell.wait(min(interval, HEARTBEAT_SECONDS)):
                if time.monotonic() >= next_read:
                    break
                yield sse_event("beat")
            else:
                await bell.pause(pace.min_seconds)


def _read_parts(pk: int, read: Callable[[User], PageParts], face: PageFace) -> PartsEvent | None:
    """What the user may see now: rights may have changed since the last read. The event is encoded
    here, once for all streams that share it, and not in the event loop."""
    user = User.objects.filter(pk=pk, is_active=True).first()
    if user is None:
        return None
    begin = time.monotonic()
    with face.active():
        parts = read(user)
    digest = blake2s(parts.html.encode(), digest_size=9).hexdigest()
    event = sse_event("page", parts.html, id=digest)
    return PartsEvent(event, digest, parts.bells, time.monotonic() - begin)
