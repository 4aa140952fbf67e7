"""The quotas and budgets that some work counts against, before and after it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from portal.quotas.figures import view_figures
from scheduler.core.model.snapshot import BudgetView, QuotaView
from scheduler.core.quota.promises import QuotaPromise


@dataclass(frozen=True, slots=True)
class LimitEffect:
    """The use of one limit before and after the work, in units; unit-seconds of a budget."""

    is_budget: bool
    # Empty: a limit of the whole project.
    user: str
    limit: int
    before: int
    after: int
    # Kept for jobs ahead: counts as well, and is held by nobody yet.
    promised: int = 0
    # Of the limit, what can only be borrowed.
    borrow: int = 0
    # Empty: every GPU model.
    model: str = ""
    # When a budget ends, in seconds since the epoch.
    ends_at: int | None = None

    @property
    def is_exceeded(self) -> bool:
        return self.after + self.promised > self.limit

    @property
    def remaining(self) -> int:
        """What is left after the work; 0 if the limit is exceeded."""
        return max(0, self.limit - self.after - self.promised)


def limit_effects(
    quotas: Iterable[QuotaView],
    budgets: Iterable[BudgetView],
    *,
    project: str,
    user: str,
    units: int,
    seconds: int,
    models: Collection[str] = ("",),
    promises: Collection[QuotaPromise] = (),
) -> tuple[LimitEffect, ...]:
    """The effect of `units` for at most `seconds` on every limit, quotas first.

    `models`: the values of `Quota.model` that count the GPUs; `promises`: what the pass keeps for
    jobs ahead.
    """
    owners = (project, ""), (project, user)
    effects = [
        LimitEffect(
            *(False, q.user, figures.most_units, figures.held_units, figures.held_units + units),
            promised=figures.promised_units,
            borrow=figures.borrow_units,
            model=q.model,
        )
        for q in sorted(quotas, key=lambda quota: (quota.user, quota.model))
        if (q.project, q.user) in owners and q.model in models
        for figures in (view_figures(q, promises),)
    ]
    for budget in budgets:
        if (budget.project, budget.user) in owners:
            before = budget.used_unit_seconds + budget.reserved_unit_seconds
            after = before + units * seconds
            limit, ends_at = budget.limit_unit_seconds, budget.ends_at
            effects.append(LimitEffect(True, budget.user, limit, before, after, ends_at=ends_at))
    return tuple(effects)
