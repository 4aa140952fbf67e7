"""Alternatives of waiting jobs: changed requests that would start now, stored in their reasons."""

from collections.abc import Mapping
from typing import Any

from portal.jobs.models import Job
from portal.jobs.waiting_columns import waiting_columns_write

KEY = "alternatives"


def alternatives_write(by_job: Mapping[int, list[dict[str, Any]]]) -> None:
    """Write the alternatives of these queued jobs, by id; all others lose theirs."""
    queued = Job.objects.queued().filter(reason__isnull=False)
    outdated = queued.filter(reason__has_key=KEY).values_list("pk", flat=True)
    rows = queued.filter(pk__in={*by_job, *outdated}).values_list("pk", "reason")
    changed = {}
    for pk, reason in rows:
        new = {name: value for name, value in (reason or {}).items() if name != KEY}
        if pk in by_job:
            new[KEY] = by_job[pk]
        if new != reason:
            changed[pk] = {"reason": new}
    waiting_columns_write(changed)


def with_alternatives_of(new: dict[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """The new reason, with the alternatives of the old one if the code is the same: the estimates
    task tries them again soon."""
    if old and KEY in old and old["code"] == new["code"]:
        return new | {KEY: old[KEY]}
    return new
