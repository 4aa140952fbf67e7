"""The only writer of statuses: checks the transition table, guards the update, writes the event."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from agents.contract.message import NO_MESSAGE, VERBATIM, Message
from portal.audit.models import Event
from scheduler.core.model.reasons import Reason
from scheduler.core.model.states import EDGES, is_allowed

SYSTEM = "system"


class IllegalTransitionError(Exception):
    """The table has no such edge: a bug in the caller, never a race."""


class StaleStatusError(Exception):
    """The row changed since it was read. Read it again and decide again."""


def advance(
    row: Any,
    to: StrEnum,
    *,
    actor: str = SYSTEM,
    reason: Reason | None = None,
    code: str = "",
    message: Message = NO_MESSAGE,
    at: datetime | None = None,
    **columns: Any,
) -> Event:
    """Move `row` to status `to`, set `columns` in the same guarded update, and write the event.

    Its sentence is that of `reason` or of `message`. Raises IllegalTransitionError if the table has
    no such edge, and StaleStatusError if the row's status is no longer the one that was read.
    """
    old = type(to)(row.status)
    if not is_allowed(EDGES[row.NOUN], old, to):
        raise IllegalTransitionError(f"{row.NOUN} {row.pk}: {old} -> {to}")
    data = _with_message({}, message)
    if reason:
        code, message, data = str(reason.code), reason.message, {"reason": reason.as_dict()}
    if message and hasattr(row, "sentence"):
        # A row with a sentence of its own (a replica) keeps the latest.
        columns |= {"code": code, "sentence": message.text[:1024]}
    # No savepoint inside a caller's transaction: what fails here fails all of it.
    with transaction.atomic(savepoint=False):
        _update(row, old, to, columns)
        event = _event(row, old, to, actor, code, message.text, at or timezone.now(), data)
    row.status = to
    for name, value in columns.items():
        setattr(row, name, value)
    return event


def event_record(
    row: Any,
    code: str,
    message: Message,
    *,
    actor: str = SYSTEM,
    data: dict[str, Any] | None = None,
) -> Event:
    """Write an event about `row` that changes no status."""
    return Event.objects.create(
        at=timezone.now(),
        noun=row.NOUN,
        noun_id=str(row.pk),
        code=code,
        sentence=message.text[:1024],
        actor=actor,
        data=_with_message(data or {}, message),
        **_links(row),
    )


def _update(row: models.Model, old: StrEnum, to: StrEnum, columns: dict[str, Any]) -> None:
    rows = type(row)._default_manager.filter(pk=row.pk, status=old)
    if rows.update(status=to, **columns) != 1:
        raise StaleStatusError(f"{row} is no longer {old}")


def _event(
    row: Any,
    old: StrEnum,
    to: StrEnum,
    actor: str,
    code: str,
    sentence: str,
    at: datetime,
    data: dict[str, Any],
) -> Event:
    return Event.objects.create(
        at=at,
        noun=row.NOUN,
        noun_id=str(row.pk),
        old=old,
        new=to,
        code=code,
        sentence=sentence[:1024],
        actor=actor,
        data=data,
        **_links(row),
    )


def _with_message(data: dict[str, Any], message: Message) -> dict[str, Any]:
    """Add what the sentence was made of, so that pages can show it in another language."""
    is_own_text = message.key in (NO_MESSAGE.key, VERBATIM)
    return data if is_own_text else data | {"said": message.as_dict()}


def _links(row: Any) -> dict[str, Any]:
    """The job, node and project that an event about `row` belongs to."""
    match row.NOUN:
        case "job":
            return {"job_id": row.pk, "project_id": row.project_id}
        case "replica":
            job = row.attempt.job
            return {"job_id": job.pk, "project_id": job.project_id, "node_id": row.node_id}
        case "allocation":
            return {"job_id": row.replica.attempt.job_id, "project_id": row.project_id}
        case "slice":
            return {"node_id": row.gpu.node_id}
        case "gpu":
            return {"node_id": row.node_id}
        case _:
            return {"node_id": row.pk}
