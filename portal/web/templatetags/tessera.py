"""Tags and filters of every page: icons, badges, stored messages, amounts and durations."""

import re
from datetime import datetime
from functools import lru_cache
from typing import Any

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from agents.contract.units import as_gpus
from portal import text
from portal.audit.models import Event
from portal.gang_networks.models import AttemptNetwork
from portal.inventory.models import Node, Slice
from portal.jobs.models import Job, Replica
from portal.jobs.replica_ranges import replica_range
from portal.planning.estimates import no_estimate_for_job
from portal.planning.offers import job_offers
from portal.web.wording import (
    code_labels,
    failures,
    labels,
    messages,
    start_estimates,
    times,
)

register = template.Library()
CODE = re.compile("`([^`]+)`")


@register.simple_tag
@lru_cache(256)
def icon(name: str) -> SafeString:
    return format_html('<svg class="i" aria-hidden="true"><use href="#i-{}"/></svg>', name)


@register.simple_tag
def badge(status: str) -> SafeString:
    """A job's status as icon, word and colour."""
    return as_status(labels.BADGES[status])


@register.simple_tag
def badge_of(badge: labels.Badge) -> SafeString:
    """A badge as icon, word and colour."""
    return as_status(badge)


@register.simple_tag
def tab_title(job: Job) -> str:
    """A job's state, number and name for the browser's tab: "● Running · J-12 train"."""
    return labels.tab_title(job)


@register.simple_tag
def node_badge(node: Node) -> SafeString:
    """Whether a node takes work, as icon, word and colour."""
    blocked = bool(node.facts.get("blocks"))
    holding = node.holding_since is not None
    return as_status(
        labels.node_badge(
            node.status, schedulable=node.schedulable, blocked=blocked, holding=holding
        )
    )


@register.filter
def with_code(text: str) -> SafeString:
    """A sentence whose `marked` words are code."""
    return SafeString(CODE.sub(r"<code>\1</code>", escape(text)))


def as_status(badge: labels.Badge) -> SafeString:
    return _status(badge.cls, badge.icon, str(badge.word))


@lru_cache(512)
def _status(cls: str, sign: str, word: str) -> SafeString:
    return format_html('<span class="status {}">{}{}</span>', cls, icon(sign), word)


@register.simple_tag
def expected_start(job: Job) -> start_estimates.StartRange | None:
    """When a queued job will probably start; None without an estimate."""
    return start_estimates.expected_start(job)


@register.filter
def stored_text(stored: dict[str, Any] | None) -> SafeString:
    """The sentence of a stored reason."""
    return times.text_with_elements(messages.stored_text(stored))


@register.filter
def event_text(event: Event) -> SafeString:
    return times.text_with_elements(messages.event_text(event))


@register.filter
def cause_label(code: str) -> str:
    """Why jobs fail, in a few words."""
    return failures.cause_label(code)


@register.filter
def failure_headline(job: Job) -> str:
    """What failed; it may quote the log."""
    return failures.failure_headline(job)


@register.filter
def failure_notice(job: Job) -> str:
    """What failed, without words of the log."""
    return failures.failure_notice(job)


@register.filter
def status_word(status: str) -> str:
    """The status of any object in the history, such as "running"."""
    return gettext(status) if status else ""


@register.filter
def event_label(code: str) -> str:
    return code_labels.event_label(code)


@register.filter
def audit_label(action: str) -> str:
    return code_labels.audit_label(action)


@register.filter
def no_estimate(job: Job) -> SafeString:
    """Why a job has no estimate."""
    message = no_estimate_for_job(job)
    return times.text_with_elements(messages.message_text(message) if message else "")


@register.filter
def has_offers(job: Job) -> bool:
    """Whether its page offers something that would start it sooner."""
    return bool(job_offers(job))


@register.simple_tag
def elapsed(start: datetime | None, end: datetime | None) -> str:
    return labels.elapsed(start, end)


@register.filter
def gpus(units: int) -> str:
    return as_gpus(units)


@register.filter
def gpus_free(units: int) -> str:
    """Rounded down: never more than there is."""
    return as_gpus(units, round_up=False)


@register.filter
def single_line(value: str, max_length: int) -> str:
    """The value of a field, shown outside the field."""
    return text.single_line(value, max_length)


@register.filter
def seconds(amount: int) -> str:
    return labels.duration(amount)


@register.filter
def exit_meaning(replica: Replica) -> str:
    return labels.exit_meaning(replica.exit_code, memory_kill=replica.memory_kill)


@register.filter
def device_label(job: Job) -> str:
    return labels.device_label(job)


@register.filter
def may_be_gang(job: Job) -> bool:
    """Whether it may have several ranks."""
    return replica_range(job.request)[1] > 1


@register.filter
def size_sentence(job: Job, placed: int) -> str:
    return labels.size_sentence(job, placed)


@register.filter
def share_label(device: Slice) -> str:
    """The threads and memory of an MPS share."""
    return labels.share_label(device.threads, labels.memory_label(device.memory_mib))


@register.filter
def rank_address(network: AttemptNetwork, rank: int) -> str:
    """In the network of its gang."""
    return network.rank_address(rank)


@register.filter
def fit_to_width(value: str, width: float) -> str:
    """The text, cut to fit a block of `width` pixels at 11 px type."""
    room = int((width - 10) / 6)
    if len(value) <= room:
        return value
    return value[: room - 1] + "…" if room > 2 else ""


@register.filter
def add_px(value: float, more: float) -> float:
    """The sum of two lengths of a drawing."""
    return round(value + more, 1)


@register.simple_tag
def error_attributes(errors: dict[str, str], name: str) -> str:
    """The attributes of an input that has an error; the first one has the focus."""
    if name not in errors:
        return ""
    focus = " autofocus" if name == next(iter(errors)) else ""
    return format_html(' aria-invalid="true" aria-describedby="{}-error"{}', name, focus)
