"""The reasons of a job without quota: the limit, who uses it, and what can still be borrowed."""

from typing import Any

from agents.contract.message import Message, join_clauses
from agents.contract.units import as_gpus
from scheduler.core.model.message_templates import make_message, owner_label
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.quota.holders import user_list
from scheduler.core.quota.pools import QuotaAccount, QuotaPool

_UNBLOCKS = make_message("unblocks.quota")
_LENT = make_message("unblocks.lent")


def project_quota_reason(
    project: str, units: int, model: str, pool: QuotaPool, units_by_user: dict[str, int]
) -> Reason:
    """Why the project may not use `units` more.

    `units_by_user`: of the project, largest first. The message names no other project, but the
    evidence `borrowed_by` does: show people only the names that they may see."""
    own = pool.projects[project]
    evidence = _evidence(own, units, model)
    message = _limit_message(project, own, model)
    users = _promised_messages(own)
    if units_by_user:
        users.append(make_message("quota.held_by", names=user_list(units_by_user)))
        evidence["held_by"] = units_by_user
    if not own.borrow:
        message = Message("clause.colon", first=message, then=_left_message(own, units))
        return Reason(ReasonCode.QUOTA_PROJECT, join_clauses(message, *users), evidence, _UNBLOCKS)
    further = max(0, pool.max_borrowing(project) - own.borrowed)
    others = {} if further else pool.borrowers(project)
    evidence |= {
        "borrow_units": own.borrow,
        "borrowed_units": own.borrowed,
        "may_borrow_units": further,
    }
    if others:
        evidence["borrowed_by"] = others
    if own.borrowed:
        message = make_message("quota.has_borrowed", first=message, borrowed=as_gpus(own.borrowed))
    borrowed = [make_message("quota.taken", gpus=as_gpus(sum(others.values())))] if others else []
    message = join_clauses(message, _lent_message(own, further, units), *borrowed, *users)
    return Reason(ReasonCode.QUOTA_PROJECT, message, evidence, _LENT)


def user_quota_reason(project: str, user: str, units: int, model: str, own: QuotaAccount) -> Reason:
    message = _limit_message(owner_label(project, user), own, model, own.borrow)
    message = Message("clause.colon", first=message, then=_left_message(own, units, own.borrow))
    message = join_clauses(message, *_promised_messages(own))
    return Reason(ReasonCode.QUOTA_USER, message, _evidence(own, units, model), _UNBLOCKS)


def _limit_message(
    owner: Message | str, own: QuotaAccount, model: str, extra_units: int = 0
) -> Message:
    limit = as_gpus(own.limit + extra_units)
    if model:
        return make_message("quota.may_hold_of", whose=owner, limit=limit, model=model)
    return make_message("quota.may_hold", whose=owner, limit=limit)


def _left_message(own: QuotaAccount, units: int, extra_units: int = 0) -> Message:
    left = as_gpus(max(0, own.limit + extra_units - own.in_use), round_up=False)
    return make_message("quota.left", left=left, needed=as_gpus(units))


def _lent_message(own: QuotaAccount, further: int, units: int) -> Message:
    key = "quota.nothing_lent"
    values = {"needed": as_gpus(units)}
    if further:
        key = "quota.lent"
        values["further"] = as_gpus(further, round_up=False)
    elif own.borrowed >= own.borrow:
        key = "quota.borrows_enough"
    if own.unused:
        key += "_and_left"
        values["left"] = as_gpus(own.unused, round_up=False)
    return make_message(key, **values)


def _promised_messages(own: QuotaAccount) -> list[Message]:
    """What is left is less than the limit without what is held, and this says why."""
    return [make_message("quota.promised", gpus=as_gpus(own.promised))] if own.promised else []


def _evidence(own: QuotaAccount, units: int, model: str) -> dict[str, Any]:
    amounts: dict[str, Any] = {"limit_units": own.limit, "used_units": own.held}
    amounts |= {"promised_units": own.promised} if own.promised else {}
    amounts |= {"needed_units": units}
    return amounts | ({"model": model} if model else {})
