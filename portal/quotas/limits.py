"""The quotas and budgets that some work counts against, before and after it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from scheduler.core.model.snapshot import BudgetView, QuotaView


@dataclass(frozen=True, slots=True)
class LimitEffect:
    """The use of one limit before and after the work, in units; unit-seconds of a budget."""

    is_budget: bool
    # Empty: a limit of the whole project.
    user: str
    limit: int
    before: int
    after: int
    # Empty: every GPU model.
    model: str = ""
    # When a budget ends, in seconds since the epoch.
    ends_at: int | None = None

    @property
    def is_exceeded(self) -> bool:
        return self.after > self.limit

    @property
    def remaining(self) -> int:
        """What is left after the work; 0 if the limit is exceeded."""
        return max(0, self.limit - self.after)


def limit_effects(
    quotas: Iterable[QuotaView],
    budgets: Iterable[BudgetView],
    *,
    project: str,
    user: str,
    units: int,
    seconds: int,
    models: Collection[str] = ("",),
) -> tuple[LimitEffect, ...]:
    """The effect of `units` for at most `seconds` on every limit, quotas first.

    `models`: the values of `Quota.model` that count the GPUs.
    """
    owners = (project, ""), (project, user)
    effects = [
        LimitEffect(
            *(False, q.user, q.limit_units + q.borrow_units, q.used_units, q.used_units + units),
            model=q.model,
        )
        for q in sorted(quotas, key=lambda quota: (quota.user, quota.model))
        if (q.project, q.user) in owners and q.model in models
    ]
    for budget in budgets:
        if (budget.project, budget.user) in owners:
            before = budget.used_unit_seconds + budget.reserved_unit_seconds
            after = before + units * seconds
            limit, ends_at = budget.limit_unit_seconds, budget.ends_at
            effects.append(LimitEffect(True, budget.user, limit, before, after, ends_at=ends_at))
    return tuple(effects)
