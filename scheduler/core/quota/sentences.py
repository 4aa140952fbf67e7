"""What is told to who has no quota left: what it may hold, who holds it, what is still lent."""

from typing import Any

from agents.contract.units import as_gpus
from scheduler.core.quota.holders import named
from scheduler.core.quota.pools import Account, Pool
from scheduler.core.reasons import Reason, ReasonCode

_UNBLOCKS = "It starts when other work of the quota ends, or when an admin raises it"
_LENT = "It starts when other work of the quota ends, or when others lend more"


def of_project(project: str, units: int, model: str, pool: Pool, held_by: dict[str, int]) -> Reason:
    """`held_by`: units by user of the project, the most first. No sentence names other projects;
    whoever shows `borrowed_by` to people leaves out the names that they may not see."""
    own = pool.projects[project]
    evidence = _evidence(own, units)
    told = _may_hold(project, own, model)
    held = f"; held by {named(held_by)}" if held_by else ""
    if held_by:
        evidence["held_by"] = held_by
    if not own.borrow:
        return Reason(
            ReasonCode.QUOTA_PROJECT, f"{told}: {_left(own, units)}{held}", evidence, _UNBLOCKS
        )
    further = max(0, pool.may_borrow(project) - own.borrowed)
    others = {} if further else pool.borrowers(project)
    evidence |= {
        "borrow_units": own.borrow,
        "borrowed_units": own.borrowed,
        "may_borrow_units": further,
    }
    if others:
        evidence["borrowed_by"] = others
    told += f" and has borrowed {as_gpus(own.borrowed)} more" if own.borrowed else ""
    lent = f"{_lent(own, further)}, this needs {as_gpus(units)}"
    taken = f"; {as_gpus(sum(others.values()))} borrowed by other projects" if others else ""
    return Reason(ReasonCode.QUOTA_PROJECT, f"{told}; {lent}{taken}{held}", evidence, _LENT)


def of_user(whose: str, units: int, model: str, own: Account) -> Reason:
    told = f"{_may_hold(whose, own, model, own.borrow)}: {_left(own, units, own.borrow)}"
    return Reason(ReasonCode.QUOTA_USER, told, _evidence(own, units), _UNBLOCKS)


def _may_hold(whose: str, own: Account, model: str, more: int = 0) -> str:
    limit = own.limit + more
    word = "GPU" if as_gpus(limit) == "1" else "GPUs"
    of = f" of {model}" if model else ""
    return f"{whose} may hold {as_gpus(limit)} {word}{of} at once"


def _left(own: Account, units: int, more: int = 0) -> str:
    return f"{_are_left(max(0, own.limit + more - own.used))}, this needs {as_gpus(units)}"


def _are_left(units: int) -> str:
    left = as_gpus(units, up=False)
    return f"{left} {'is' if left == '1' else 'are'} left"


def _lent(own: Account, further: int) -> str:
    left = f"{_are_left(own.left)}, and " if own.left else ""
    if further:
        return f"{left}{as_gpus(further, up=False)} more can be borrowed now"
    if own.borrowed >= own.borrow:
        return f"{left}it may borrow no more"
    return f"{left}nothing more is lent now"


def _evidence(own: Account, units: int) -> dict[str, Any]:
    return {"limit_units": own.limit, "used_units": own.used, "needed_units": units}
