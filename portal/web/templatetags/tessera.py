"""Filters for templates: the words of portal.web.wording.labels."""

import re
from datetime import datetime
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from agents.contract.units import as_gpus
from portal import text as plain
from portal.audit.models import Event
from portal.inventory.models import Node, Slice
from portal.jobs.models import Job, Replica
from portal.planning.estimates import why_no_estimate
from portal.web.wording import labels as words
from portal.web.wording import messages as telling
from portal.web.wording.start_estimates import Expected, expected_of

register = template.Library()
# Between the number and the unit of "8GiB", as it was asked for.
UNIT = re.compile(r"(?<=\d)(?=[A-Za-z])")


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html('<svg class="i" aria-hidden="true"><use href="#i-{}"/></svg>', name)


@register.simple_tag
def badge(status: str) -> SafeString:
    """A job's status as icon, word and colour."""
    found = words.BADGES[status]
    return format_html(
        '<span class="status {}">{}{}</span>', found.cls, icon(found.icon), found.word
    )


@register.simple_tag
def expects(job: Job) -> Expected | None:
    """When a waiting job will start, where there is something to go by."""
    return expected_of(job)


@register.filter
def told(stored: dict[str, Any] | None) -> str:
    """What a stored reason says, in the reader's language."""
    return telling.told(stored)


@register.filter
def told_event(event: Event) -> str:
    return telling.told_event(event)


@register.filter
def status_word(status: str) -> str:
    """Of any noun, as history names it: "running"."""
    return gettext(status) if status else ""


@register.filter
def no_estimate(job: Job) -> str:
    """What stands in place of an estimate."""
    said = why_no_estimate(job)
    return telling.here(said) if said else ""


@register.simple_tag
def took(start: datetime | None, end: datetime | None) -> str:
    return words.between(start, end)


@register.filter
def gpus(units: int) -> str:
    return as_gpus(units)


@register.filter
def gpus_free(units: int) -> str:
    return as_gpus(units, up=False)


@register.filter
def one_line(text: str, most: int) -> str:
    """What is typed into a field, where it is said outside of it."""
    return plain.one_line(text, most)


@register.filter
def seconds(amount: int) -> str:
    return words.duration(amount)


@register.filter
def meaning(replica: Replica) -> str:
    return words.exit_meaning(replica.exit_code, memory_kill=replica.memory_kill)


@register.filter
def what(job: Job) -> str:
    """The devices of a request in one phrase, such as "2 × 2g.35gb"."""
    asked = job.request["device"]
    if "gpus" in asked:
        each = f"{asked['gpus']} GPU"
    elif "mps" in asked:
        size = UNIT.sub(words.NBSP, asked["mps"]["memory"])
        each = words.share(asked["mps"]["threads"], size)
    else:
        each = str(asked.get("mig", asked.get("memory")))
    return f"{job.replicas_wanted} × {each}" if job.replicas_wanted > 1 else each


@register.filter
def share_of(piece: Slice) -> str:
    """What an MPS share holds of its GPU."""
    return words.share(piece.threads, words.memory(piece.memory_mib))


@register.filter
def fitted(text: str, width: float) -> str:
    """As much of the words as fit a block that is `width` wide, at 11 px."""
    room = int((width - 10) / 6)
    if len(text) <= room:
        return text
    return text[: room - 1] + "…" if room > 2 else ""


@register.simple_tag
def invalid(errors: dict[str, str], name: str) -> str:
    """The attributes of an input that has an error."""
    if name not in errors:
        return ""
    return format_html(' aria-invalid="true" aria-describedby="{}-error"', name)


@register.simple_tag
def node_badge(node: Node) -> SafeString:
    """Whether a node takes work, as icon, word and colour."""
    blocked = bool(node.facts.get("blocks"))
    found = words.node_badge(node.status, schedulable=node.schedulable, blocked=blocked)
    return format_html(
        '<span class="status {}">{}{}</span>', found.cls, icon(found.icon), found.word
    )
