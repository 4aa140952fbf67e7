"""Whether an owner may use more GPU now: the quotas, job caps and budgets of one pass."""

from collections.abc import Callable, Iterable

from scheduler.core.model.reasons import Reason
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.quota.budgets import Budgets
from scheduler.core.quota.caps import JobCaps
from scheduler.core.quota.holders import QuotaUsers, quota_models
from scheduler.core.quota.messages import project_quota_reason, user_quota_reason
from scheduler.core.quota.pools import QuotaAccount, QuotaPool

Undo = Callable[[], None]
# Project, user ("" for the project's own account), model of GPU ("" for all).
AccountKey = tuple[str, str, str]


class QuotaAccounts:
    """The accounts of one pass. Charges are undone in reverse order.

    A project's quota is its nominal share; beyond it, the project borrows (`QuotaPool`). A user's
    own limit applies as well; `borrow_units` of a user's quota lets the user go beyond it while the
    project borrows.
    """

    def __init__(self, snapshot: ClusterSnapshot, previous: "QuotaAccounts | None" = None) -> None:
        """`previous`: the accounts of the previous pass, whose counts are reused."""
        self._pools: dict[str, QuotaPool] = {}
        self._users: dict[tuple[str, str, str], QuotaAccount] = {}
        for quota in snapshot.quotas:
            account = QuotaAccount(
                quota.limit_units, quota.used_units, quota.borrow_units, quota.lend_units
            )
            if quota.user:
                self._users[quota.project, quota.user, quota.model] = account
            else:
                self._pools.setdefault(quota.model, QuotaPool()).add(quota.project, account)
        self._models = {*self._pools, *(key[2] for key in self._users)}
        self._names: dict[str, tuple[str, ...]] = {}
        self._budgets = Budgets(snapshot.budgets, snapshot.now)
        self._caps = JobCaps(snapshot.owners, snapshot.running)
        self._holders = QuotaUsers(snapshot.running, snapshot.nodes)
        # By project, units, and name of the quota's model.
        self._project_reasons: dict[tuple[str, int, str], Reason] = {}
        if previous is not None:
            self._holders.reuse_counts(previous._holders)

    def __bool__(self) -> bool:
        """Whether there is any quota."""
        return bool(self._models)

    def account(self, owner: tuple[str, str]) -> QuotaAccount | None:
        """The account of (project, user) for all models; user "" means the project itself."""
        project, user = owner
        if user:
            return self._users.get((project, user, ""))
        pool = self._pools.get("")
        return pool.projects.get(project) if pool else None

    def limit_reason(self, job: WaitingJob, units: int, model: str = "") -> Reason | None:
        """Why the job may not use `units` of GPU now on a board with the key `model`; None if it
        may. Without a model, only limits for all models apply."""
        return (
            self._quota_reason(job, units, model)
            or self._caps.cap_reason(job)
            or self._budgets.budget_reason(job, units)
        )

    def is_within_nominal(self, project: str, units: int, model: str = "") -> bool:
        """Whether the project has a quota here and can use `units` more without borrowing. Then it
        may reclaim what others have borrowed."""
        own_accounts = [a for _, a in self._of_project(project, model)]
        return bool(own_accounts) and all(a.in_use + units <= a.limit for a in own_accounts)

    def has_to_borrow(self, project: str, units: int, model: str = "") -> bool:
        """Whether the project has a quota here that is too small for `units` more without
        borrowing."""
        return any(a.in_use + units > a.limit for _, a in self._of_project(project, model))

    def borrowed(self, project: str, model: str = "") -> int:
        """How far the project exceeds its nominal quota, on this board or over all boards."""
        return max((a.borrowed for _, a in self._of_project(project, model)), default=0)

    def max_borrowing(self, project: str, model: str = "") -> int:
        """How much the project may use beyond its limit, of the quota for exactly this model."""
        pool = self._pools.get(model)
        return pool.max_borrowing(project) if pool and project in pool.projects else 0

    def charged_accounts(self, project: str, user: str, model: str) -> list[AccountKey]:
        """The accounts that pay for work of this owner on a board with the key `model`."""
        names = self._known(model)
        owners = [(project, "", n) for n in names if n in self._pools]
        owners = [key for key in owners if project in self._pools[key[2]].projects]
        return [*owners, *((project, user, n) for n in names if (project, user, n) in self._users)]

    def short_accounts(self, job: WaitingJob, units: int, model: str) -> list[AccountKey]:
        """The accounts with too little left for the job now that would suffice if they were unused.
        [] if the job also needs to borrow or waits for something else."""
        if self._caps.cap_reason(job) or self._budgets.budget_reason(job, units):
            return []
        short = []
        for key in self.charged_accounts(job.project, job.user, model):
            own = self._users[key] if key[1] else self._pools[key[2]].projects[job.project]
            max_units = own.limit + own.borrow * bool(key[1])
            if units > max_units:
                return []
            if own.in_use + units > max_units:
                short.append(key)
        return short

    def charge(
        self, project: str, user: str, units: int, model: str = "", seconds: int = 0
    ) -> Undo:
        """Count a job that was placed on `units` of a board for at most `seconds` more; negative
        units for one that ended. Returns the undo."""
        self._project_reasons.clear()
        undos = [
            undo
            for name in self._known(model)
            if (pool := self._pools.get(name)) and (undo := pool.charge(project, units))
        ]
        users = [a for name in self._known(model) if (a := self._users.get((project, user, name)))]
        promised = max(0, units)
        for account in users:
            account.count(units, promised)
        undos.append(self._budgets.charge(project, user, units * seconds))
        undos.append(self._caps.charge(project, user, 1 if units > 0 else -1))

        def undo_all() -> None:
            self._project_reasons.clear()
            for undo in undos:
                undo()
            for account in users:
                account.count(-units, -promised)

        return undo_all

    def _quota_reason(self, job: WaitingJob, units: int, model: str) -> Reason | None:
        names = self._known(model)
        for name in names:
            pool = self._pools.get(name)
            if pool is not None and not pool.may_allocate(job.project, units):
                return self._project_reason(job.project, units, name, pool)
        for name in names:
            own = self._users.get((job.project, job.user, name))
            if own is not None and own.in_use + units > own.limit + own.borrow:
                return user_quota_reason(job.project, job.user, units, name, own)
        return None

    def _project_reason(self, project: str, units: int, name: str, pool: QuotaPool) -> Reason:
        """Every job of a project that waits for as many units has the same one, until an account
        changes: a long queue would make it thousands of times."""
        key = (project, units, name)
        if key not in self._project_reasons:
            units_by_user = self._holders.units_by_user(project, name)
            reason = project_quota_reason(project, units, name, pool, units_by_user)
            self._project_reasons[key] = reason
        return self._project_reasons[key]

    def _of_project(self, project: str, model: str) -> Iterable[tuple[str, QuotaAccount]]:
        for name in self._known(model):
            pool = self._pools.get(name)
            if pool is not None and project in pool.projects:
                yield name, pool.projects[project]

    def _known(self, board: str) -> tuple[str, ...]:
        """The names of the board that some quota has."""
        if board not in self._names:
            self._names[board] = tuple(m for m in quota_models(board) if m in self._models)
        return self._names[board]
