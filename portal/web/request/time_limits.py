"""The time limits that the request page offers as buttons."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils import timezone
from django.utils.translation import ngettext

from portal.web.wording.labels import duration
from scheduler.core.request import RequestLimits
from scheduler.core.request.quantities import read_seconds, write_seconds
from scheduler.core.request.typed_text import read_typed
from scheduler.core.request_fields import FieldKind

USUAL_SECONDS = (1_800, 2 * 3_600, 4 * 3_600, 8 * 3_600, 24 * 3_600)
SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class TimeChoice:
    """A button that fills in the time limit."""

    value: str
    label: str
    is_chosen: bool


def time_choices(typed: str, limits: RequestLimits) -> list[TimeChoice]:
    """The usual time limits up to the longest that is allowed here, and that one. `typed` is read
    as the form reads it: "120" is two hours."""
    chosen = _seconds(typed) if typed.strip() else limits.default_time_limit_seconds
    return [
        TimeChoice(write_seconds(seconds), _label(seconds), seconds == chosen)
        for seconds in _offered(limits.max_time_limit_seconds)
    ]


def _offered(longest_seconds: int) -> Iterator[int]:
    yield from (seconds for seconds in USUAL_SECONDS if seconds < longest_seconds)
    yield longest_seconds


def _label(seconds: int) -> str:
    if seconds % SECONDS_PER_DAY == 0:
        days = seconds // SECONDS_PER_DAY
        return ngettext("%(n)s day", "%(n)s days", days) % {"n": days}
    return duration(seconds) if seconds % 60 == 0 else write_seconds(seconds)


def _seconds(typed: str) -> int:
    try:
        return read_seconds(read_typed(FieldKind.DURATION, typed, timezone.localtime()).written)
    except ValueError:
        return 0
