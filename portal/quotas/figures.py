"""The figures of a quota, the same on every page, over REST and on the command line.

    held       by jobs that have their devices: running, placed, or not released yet
    promised   what the last pass keeps for jobs of the queue: they are about to start
    free       the rest of the limit

`portal.availability.promises` has what is promised now.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from portal.quotas.models import Quota
from scheduler.core.model.snapshot import QuotaView
from scheduler.core.quota.promises import QuotaPromise, promised_units


@dataclass(frozen=True, slots=True)
class QuotaFigures:
    """In units."""

    limit_units: int
    borrow_units: int
    """How much the owner may hold beyond the limit, where others lend it."""
    held_units: int
    promised_units: int

    @property
    def most_units(self) -> int:
        return self.limit_units + self.borrow_units

    @property
    def free_units(self) -> int:
        """Neither held nor promised, without borrowing."""
        return max(0, self.limit_units - self.held_units - self.promised_units)


def limit_parts(
    limit_units: int, parts: Iterable[tuple[str, int]]
) -> Iterator[tuple[str, float, float]]:
    """Name, start and size of each part as drawn: in parts of the limit, together at most 1."""
    limit, start = max(1, limit_units), 0
    for name, units in parts:
        size = min(units, limit - start)
        if size > 0:
            yield name, start / limit, size / limit
        start += size


def quota_figures(quota: Quota, promises: Iterable[QuotaPromise]) -> QuotaFigures:
    """Of a row with its project and user."""
    return view_figures(quota_view(quota), promises)


def view_figures(quota: QuotaView, promises: Iterable[QuotaPromise]) -> QuotaFigures:
    """Of the planner's view of a row."""
    promised = promised_units(promises, project=quota.project, user=quota.user, model=quota.model)
    return QuotaFigures(quota.limit_units, quota.borrow_units, quota.used_units, promised)


def quota_view(quota: Quota) -> QuotaView:
    return QuotaView(
        quota.project.slug,
        quota.user.username if quota.user else "",
        quota.limit_units,
        quota.used_units,
        quota.model,
        quota.borrow_units,
        quota.lend_units,
    )
