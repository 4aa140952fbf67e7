"""Quota reserved for jobs that reached the bypass limit.

Without it, small jobs of the same project would take each GPU of the quota as it comes free, and a
wide job would never find enough of it.
"""

from collections.abc import Iterable

from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.quota.accounts import AccountKey, QuotaAccounts


class QuotaReservations:
    """The quota reserved in one pass: only what a job may have without borrowing. Quota that other
    projects lend is never reserved."""

    def __init__(self, accounts: QuotaAccounts) -> None:
        self._accounts = accounts
        self._job_by_account: dict[AccountKey, str] = {}

    def reserve(self, job: WaitingJob, options: Iterable[DeviceOption]) -> None:
        """Keep later jobs of this pass off the accounts that `job` is short of."""
        for option in options:
            short = self._accounts.short_accounts(
                job, option.replica_units * job.replicas, option.board
            )
            for key in short:
                self._job_by_account.setdefault(key, job.id)

    def job_ids(self) -> set[str]:
        """Ids of the jobs that have quota reserved."""
        return set(self._job_by_account.values())

    def allowed_options(
        self, job: WaitingJob, options: list[DeviceOption]
    ) -> tuple[list[DeviceOption], str]:
        """The options that touch no reserved account, and the id of the job that the first excluded
        option is reserved for ("" if none is excluded)."""
        if not self._job_by_account:
            return options, ""
        allowed, ahead = [], ""
        for option in options:
            keys = self._accounts.charged_accounts(job.project, job.user, option.board)
            others = [self._job_by_account[key] for key in keys if key in self._job_by_account]
            if others:
                ahead = ahead or others[0]
            else:
                allowed.append(option)
        return allowed, ahead


def quota_reserved_reason(ahead: str) -> Reason:
    """Why a job waits if the quota it needs is reserved for the job `ahead`."""
    message = make_message("reservation.quota", job=f"J-{ahead}")
    unblocks = make_message("unblocks.quota_kept", job=f"J-{ahead}")
    return Reason(ReasonCode.RESERVATION, message, {"job": ahead}, unblocks)
