"""The reader's clock in templates: every time on a page is written by one of these.

    {{ job.started_at|moment }}            14:31, "yesterday 14:31", "22 Nov 14:31"
    {{ event.at|moment_seconds }}          14:31:40
    {{ latest|moment_after:earliest }}     the end of a range: its day only if that differs
    {{ token.expiry|day }}                 today, "22 Nov"
    {{ job.submitted_at|at_moment }}       "at 14:31", "on 22 Nov at 14:31": the end of a sentence
    {% moment_words at %}in about 4 min{% endmoment_words %}
    {{ panel.sentence|moments }}           a sentence with moments in it

Each gives a `<time>` element with the full date and zone as its title; nothing for no time.
"""

from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString

from portal.web.wording import times

register = template.Library()
NOTHING = SafeString("")


@register.filter
def moment(at: datetime | None) -> SafeString:
    return times.moment_element(at) if at else NOTHING


@register.filter
def moment_after(at: datetime | None, first: datetime | None) -> SafeString:
    return times.moment_element_after(at, first) if at and first else moment(at)


@register.filter
def moment_seconds(at: datetime | None) -> SafeString:
    return times.moment_element(at, seconds=True) if at else NOTHING


@register.filter
def day(at: datetime | None) -> SafeString:
    return times.time_element(at, times.day_text(at)) if at else NOTHING


@register.filter
def at_moment(at: datetime | None) -> SafeString:
    return times.time_element(at, times.at_moment_text(at)) if at else NOTHING


@register.filter
def log_day(at: datetime) -> str:
    """Changes with the day; empty for today."""
    return times.other_day(at)


@register.filter
def log_time(at: datetime) -> SafeString:
    """The clock alone: a log names its day above its lines."""
    return times.time_element(at, times.log_clock_text(at))


@register.simple_block_tag
def moment_words(content: str, at: datetime | None, note: str = "") -> str:
    """The moment in words of its own, such as how long until then; `note`: added to the title."""
    return times.time_element(at, content, note) if at else content


@register.simple_tag
def moment_now() -> SafeString:
    return times.moment_element(timezone.now(), seconds=True)


@register.filter
def moments(text: Any) -> SafeString:
    return times.text_with_elements(str(text) if text is not None else "")


@register.filter
def moments_plain(text: Any) -> str:
    """The same for an attribute."""
    return times.text_with_clock(text)


@register.simple_tag
def zone_label() -> str:
    return times.zone_text()
