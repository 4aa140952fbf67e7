"""What an owner may hold on the best day: what needs more can never run."""

from collections.abc import Iterable, Sequence

from scheduler.core.model.snapshot import QuotaView, WaitingJob
from scheduler.core.quota.holders import quota_models


def quota_too_small(
    job: WaitingJob, units: int, board: str, quotas: Sequence[QuotaView]
) -> tuple[QuotaView, int] | None:
    """The quota under which the job's owner can never hold so many units of the board, and how many
    it could if nobody else held anything. None where there is none."""
    models = quota_models(board)
    mine = (
        q
        for q in quotas
        if q.project == job.project and q.user in ("", job.user) and q.model in models
    )
    for quota in sorted(mine, key=lambda q: (q.user, q.model)):
        if units > quota.limit_units and units > (most := _most(quota, quotas)):
            return quota, most
    return None


def _most(quota: QuotaView, quotas: Iterable[QuotaView]) -> int:
    if quota.user:
        return quota.limit_units + quota.borrow_units
    lent = sum(
        min(q.lend_units, q.limit_units)
        for q in quotas
        if not q.user and q.model == quota.model and q.project != quota.project
    )
    return quota.limit_units + min(quota.borrow_units, lent)
