"""What work would count against: the limits of its project and its user, before and after it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from scheduler.core.model.snapshot import BudgetView, QuotaView


@dataclass(frozen=True, slots=True)
class LimitEffect:
    """A limit, in units; of a budget in unit-seconds. `held`: what counts now; `after`: with the
    work. `user` "" is the whole project, `model` "" every model of GPU. `ends_at`, in seconds since
    the epoch, is a budget's."""

    is_budget: bool
    user: str
    limit: int
    before: int
    after: int
    model: str = ""
    ends_at: int | None = None

    @property
    def is_exceeded(self) -> bool:
        return self.after > self.limit

    @property
    def remaining(self) -> int:
        """Nothing, where it is over."""
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
    """Every limit that `units` for at most `seconds` count against, quotas first, the project's
    before the user's. `models`: what a quota may call the GPUs."""
    owners = (project, ""), (project, user)
    found = [
        LimitEffect(
            *(False, q.user, q.limit_units + q.borrow_units, q.used_units, q.used_units + units),
            model=q.model,
        )
        for q in sorted(quotas, key=lambda quota: (quota.user, quota.model))
        if (q.project, q.user) in owners and q.model in models
    ]
    for budget in budgets:
        if (budget.project, budget.user) in owners:
            held = budget.used_unit_seconds + budget.reserved_unit_seconds
            after = held + units * seconds
            limit, ends_at = budget.limit_unit_seconds, budget.ends_at
            found.append(LimitEffect(True, budget.user, limit, held, after, ends_at=ends_at))
    return tuple(found)
