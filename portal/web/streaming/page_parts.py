"""Streams of pages that are told whole each time: the lists, and the cluster.

The id of an event is a digest of its parts. A browser that comes back says the last one it has, to
whichever process: it is sent what stands there now where that is something else, and needs none of
those it missed.
"""

import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from dataclasses import dataclass
from hashlib import blake2s

from django.utils import translation

from portal.accounts.models import User
from portal.live.listener import listener, subscribe
from portal.web.streaming.event_stream import (
    HEARTBEAT_SECONDS,
    GoingDown,
    life,
    look,
    message,
    retry,
)

QUIET_MOST_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Parts:
    """The fragments of a page, and the bells that ring when they may have changed."""

    html: str
    bells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """The same as an event, with its id, and how long it took to read."""

    event: str
    id: str
    bells: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Pace:
    """What rings is shown at most, and what is quiet looked at again at least, this often; what
    takes long to read only after so many `times` of it, or a minute."""

    busy: float
    quiet: float
    times: int = 1_000

    def quiet_after(self, seconds: float) -> float:
        return max(self.quiet, min(QUIET_MOST_SECONDS, seconds * self.times))


async def part_events(
    user: User,
    read: Callable[[User], Parts],
    *,
    same: Hashable,
    language: str,
    pace: Pace,
    bells: Iterable[str] = (),
    seen: str = "",
) -> AsyncIterator[str]:
    """The parts now, and again after a bell or a while; a beat where they are what was seen.
    `same`: what they depend on beside the reader, as one read serves all who ask for the same."""
    end = time.monotonic() + life()
    key = (same, user.pk, language)
    yield retry()
    with subscribe(*bells) as bell:
        while time.monotonic() < end and not bell.is_closing:
            try:
                told = await look(_look, user.pk, read, language, same=key)
            except GoingDown:
                return
            if told is None:
                # Nobody who may sign in any more: the page learns no more, and does not come back.
                yield message("done")
                return
            yield message("beat") if told.id == seen else told.event
            seen = told.id
            listener().turn(bell, told.bells)
            quiet = pace.quiet_after(told.seconds)
            again = time.monotonic() + quiet
            while not await bell.wait(min(quiet, HEARTBEAT_SECONDS)):
                if time.monotonic() >= again:
                    break
                yield message("beat")
            else:
                await bell.pause(pace.busy)


def _look(pk: int, read: Callable[[User], Parts], language: str) -> Told | None:
    """What the reader may see now, as rights may have changed since the last look. The event is
    written here, once for all who share it, and not in the loop that serves everybody."""
    user = User.objects.filter(pk=pk, is_active=True).first()
    if user is None:
        return None
    begun = time.monotonic()
    with translation.override(language):
        parts = read(user)
    mark = blake2s(parts.html.encode(), digest_size=9).hexdigest()
    event = message("page", parts.html, id=mark)
    return Told(event, mark, parts.bells, time.monotonic() - begun)
