"""Budgets: the unit-seconds of GPU that an owner may use in a window of time."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from agents.contract.moments import write_moment
from agents.contract.units import SECONDS_PER_HOUR, as_gpus
from scheduler.core.model.message_templates import make_message, owner_label
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import BudgetView, WaitingJob
from scheduler.core.request.quantities import write_seconds

MINUTE = 60


@dataclass(slots=True)
class _Budget:
    view: BudgetView
    reserved: int
    """Unit-seconds that running jobs may still use."""

    @property
    def left(self) -> int:
        return max(0, self.view.limit_unit_seconds - self.view.used_unit_seconds - self.reserved)


class Budgets:
    """The current budgets, by owner."""

    def __init__(self, budgets: Iterable[BudgetView], now: int) -> None:
        self._by_owner: dict[tuple[str, str], list[_Budget]] = {}
        for view in sorted(budgets, key=lambda b: (b.ends_at, b.limit_unit_seconds)):
            if view.ends_at > now:
                own = self._by_owner.setdefault((view.project, view.user), [])
                own.append(_Budget(view, view.reserved_unit_seconds))

    def budget_reason(self, job: WaitingJob, units: int) -> Reason | None:
        """Why the job may not run on `units` for the rest of its time limit; or None."""
        needed = units * remaining_seconds(job)
        for budget in self._of_owner(job.project, job.user) if self._by_owner else ():
            if needed > budget.left:
                return _reason(budget, job, units, needed)
        return None

    def short(self, job: WaitingJob, units: int) -> list[BudgetView]:
        """The budgets with too little left for it."""
        needed = units * remaining_seconds(job)
        of_owner = self._of_owner(job.project, job.user)
        return [budget.view for budget in of_owner if needed > budget.left]

    def charge(self, project: str, user: str, unit_seconds: int) -> Callable[[], None]:
        """Reserve unit-seconds on the budgets of the user and of the project. Returns the undo."""
        charged = self._of_owner(project, user) if self._by_owner else []
        for budget in charged:
            budget.reserved += unit_seconds

        def undo() -> None:
            for budget in charged:
                budget.reserved -= unit_seconds

        return undo

    def _of_owner(self, project: str, user: str) -> list[_Budget]:
        return [*self._by_owner.get((project, ""), ()), *self._by_owner.get((project, user), ())]


def remaining_seconds(job: WaitingJob) -> int:
    """What is left of the job's time limit after its earlier attempts."""
    return max(0, job.time_limit_seconds - job.attained_seconds)


def _reason(budget: _Budget, job: WaitingJob, units: int, needed: int) -> Reason:
    view = budget.view
    fitting = budget.left // units // MINUTE * MINUTE
    evidence: dict[str, Any] = {
        "limit_unit_seconds": view.limit_unit_seconds,
        "used_unit_seconds": view.used_unit_seconds,
        "held_unit_seconds": budget.reserved,
        "needed_unit_seconds": needed,
        "fitting_limit_seconds": job.attained_seconds + fitting if fitting else 0,
        "ends_at": view.ends_at,
    }
    message = make_message(
        "budget.used_up",
        whose=owner_label(view.project, view.user),
        limit=_hours(view.limit_unit_seconds),
        day=write_moment(view.ends_at),
        used=_hours(view.used_unit_seconds, up=True),
        held=_hours(budget.reserved, up=True),
        left=_hours(budget.left),
        needed=_hours(needed, up=True),
    )
    if fitting:
        limit = write_seconds(job.attained_seconds + fitting)
        fitting_message = make_message("budget.fitting", first=message, limit=limit)
        return Reason(
            ReasonCode.BUDGET,
            fitting_message,
            evidence,
            make_message("unblocks.limit", limit=limit),
        )
    return Reason(ReasonCode.BUDGET, message, evidence, make_message("unblocks.budget"))


def _hours(unit_seconds: int, *, up: bool = False) -> str:
    """Unit-seconds in GPU-hours, with at most two decimals."""
    if up:
        return as_gpus(-(-unit_seconds // SECONDS_PER_HOUR))
    return as_gpus(unit_seconds // SECONDS_PER_HOUR, round_up=False)
