"""Quota that is kept for who was overtaken too often: else the small jobs of its project would take
each GPU of the quota as it comes free, and a wide one would never find enough of it."""

from collections.abc import Iterable

from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.message import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.quota.accounts import AccountKey, QuotaAccounts


class QuotaReservations:
    """Of one pass. Only quota that the job may have without borrowing is kept: of what others lend
    nothing is promised."""

    def __init__(self, accounts: QuotaAccounts) -> None:
        self._accounts = accounts
        self._for: dict[AccountKey, str] = {}

    def reserve(self, job: WaitingJob, ways: Iterable[DeviceOption]) -> None:
        """Nobody later in this pass takes of the accounts that the job is short of."""
        for want in ways:
            short = self._accounts.short_accounts(
                job, want.replica_units * job.replicas, want.board
            )
            for key in short:
                self._for.setdefault(key, job.id)

    def job_ids(self) -> set[str]:
        """For whom something is kept."""
        return set(self._for.values())

    def allowed_options(
        self, job: WaitingJob, ways: list[DeviceOption]
    ) -> tuple[list[DeviceOption], str]:
        """The ways that take of nothing that is kept, and for whom the first other one is kept."""
        if not self._for:
            return ways, ""
        found, ahead = [], ""
        for want in ways:
            keys = self._accounts.charged_accounts(job.project, job.user, want.board)
            others = [self._for[key] for key in keys if key in self._for]
            if others:
                ahead = ahead or others[0]
            else:
                found.append(want)
        return found, ahead


def quota_reserved_reason(ahead: str) -> Reason:
    """Why a job waits whose quota is kept."""
    said, helps = make_message("reservation.quota", job=f"J-{ahead}"), "unblocks.quota_kept"
    return Reason(
        ReasonCode.RESERVATION, said, {"job": ahead}, make_message(helps, job=f"J-{ahead}")
    )
