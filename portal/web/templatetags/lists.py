"""What templates of lists need: a value by its key, whether a job waits, and why in one word."""

from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.jobs.models import Job
from portal.web.templatetags.tessera import icon
from portal.web.wording.reason_badges import reason_badge as badge_of
from scheduler.core.model.states import JOB_WAITING, JobStatus

register = template.Library()


@register.filter
def item(found: Mapping[str, Any], name: str) -> Any:
    return found.get(name, "")


@register.filter
def parted(text: str) -> list[str]:
    return text.split()


@register.filter
def waits(job: Job) -> bool:
    return JobStatus(job.status) in JOB_WAITING


@register.filter
def instead(job: Job) -> int:
    """With how many changes the planner could start this waiting job now."""
    if JobStatus(job.status) is not JobStatus.QUEUED or not job.reason:
        return 0
    return len(job.reason.get("alternatives", ()))


@register.simple_tag
def reason_badge(code: str) -> SafeString:
    """What a job waits for as icon, word and colour."""
    found = badge_of(code)
    return format_html(
        '<span class="status {}">{}{}</span>', found.cls, icon(found.icon), found.word
    )
