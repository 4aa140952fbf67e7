"""What the estimates task adds to the reasons of waiting jobs: a bound, and what would start them.

`alternatives`: changed requests that would start now. `stops`: running jobs of the same owner that
would have to stop. `bound`: when the wait ends at the latest. `far_off`: earlier estimates of the
kind were too far off for this job to have one. All are stored in the reason.
"""

from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import Q

from portal.jobs.models import Job
from portal.jobs.waiting_columns import waiting_columns_write

ALTERNATIVES, STOPS, BOUND, FAR_OFF = "alternatives", "stops", "bound", "far_off"
ADDITIONS = (ALTERNATIVES, STOPS, BOUND, FAR_OFF)


def additions_write(
    *,
    alternatives: Mapping[int, list[dict[str, Any]]],
    stops: Mapping[int, list[dict[str, Any]]],
    bounds: Mapping[int, dict[str, Any]],
    far_off: Collection[int] = (),
) -> None:
    """Write the additions of these queued jobs, by id; all others lose theirs."""
    by_name: dict[str, Mapping[int, Any]] = {
        ALTERNATIVES: alternatives,
        STOPS: stops,
        BOUND: bounds,
        FAR_OFF: dict.fromkeys(far_off, True),
    }
    queued = Job.objects.queued().filter(reason__isnull=False)
    has_any = Q()
    for name in ADDITIONS:
        has_any |= Q(reason__has_key=name)
    outdated = queued.filter(has_any).values_list("pk", flat=True)
    known = {*alternatives, *stops, *bounds, *far_off, *outdated}
    rows = queued.filter(pk__in=known).values_list("pk", "reason")
    changed = {}
    for pk, reason in rows:
        new = {name: value for name, value in (reason or {}).items() if name not in ADDITIONS}
        new |= {name: values[pk] for name, values in by_name.items() if pk in values}
        if new != reason:
            changed[pk] = {"reason": new}
    waiting_columns_write(changed)


def with_additions_of(new: dict[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """The new reason, with the additions of the old one if the code is the same: the estimates task
    renews them soon."""
    if old and old["code"] == new["code"]:
        return new | {name: old[name] for name in ADDITIONS if name in old}
    return new
