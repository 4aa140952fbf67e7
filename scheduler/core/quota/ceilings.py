"""The most that an owner's quotas ever allow. A job that needs more can never run."""

from collections.abc import Iterable, Sequence

from scheduler.core.model.snapshot import QuotaView, WaitingJob
from scheduler.core.quota.holders import quota_models


def quota_too_small(
    job: WaitingJob, units: int, board: str, quotas: Sequence[QuotaView]
) -> tuple[QuotaView, int] | None:
    """The first quota that can never cover `units` of the board for the job, and how many units it
    covers if no other owner uses anything; None if there is no such quota."""
    models = quota_models(board)
    own_quotas = (
        q
        for q in quotas
        if q.project == job.project and q.user in ("", job.user) and q.model in models
    )
    for quota in sorted(own_quotas, key=lambda q: (q.user, q.model)):
        if units > quota.limit_units and units > (ceiling := _ceiling(quota, quotas)):
            return quota, ceiling
    return None


def _ceiling(quota: QuotaView, quotas: Iterable[QuotaView]) -> int:
    if quota.user:
        return quota.limit_units + quota.borrow_units
    lent = sum(
        min(q.lend_units, q.limit_units)
        for q in quotas
        if not q.user and q.model == quota.model and q.project != quota.project
    )
    return quota.limit_units + min(quota.borrow_units, lent)
