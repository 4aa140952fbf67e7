"""The only writer of statuses: checks the transition table, guards the update, writes the event.

`advance` moves one row now; `Transitions` gathers moves and writes them together.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from agents.contract.message import NO_MESSAGE, VERBATIM, Message
from portal.audit.models import Event
from portal.database.row_writes import rows_insert, rows_update
from scheduler.core.model.reasons import Reason
from scheduler.core.model.states import EDGES, is_allowed

SYSTEM = "system"

log = logging.getLogger(__name__)


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
    old, columns, event = _move(row, to, actor, reason, code, message, at, columns)
    # No savepoint inside a caller's transaction: what fails here fails all of it.
    with transaction.atomic(savepoint=False):
        _update(row, old, to, columns)
        event.save(force_insert=True)
        _log_on_commit([(row, event)])
    _set(row, to, columns)
    return event


@dataclass(slots=True)
class _Moved:
    """A row, and how its gathered moves change it."""

    row: Any
    old: str | None
    """The status that was read; None for a row without one."""
    columns: dict[str, Any] = field(default_factory=dict)


class Transitions:
    """Transitions of many rows, gathered in memory and written together: one guarded UPDATE for all
    rows that make the same move, and one INSERT for all events.

    A row may move several times; it is written once, with an event for each move. Until `write`,
    rows of the database are as they were: lock and read what is needed before. After it, more may
    be gathered.

    A new row moves before it is inserted, so that no UPDATE follows its INSERT. The caller inserts
    it before `write`, in the same transaction: its events then learn its key.
    """

    def __init__(self) -> None:
        self._moved: dict[tuple[type[models.Model], Any], _Moved] = {}
        self._events: list[Event] = []
        self._new: list[tuple[Any, Event]] = []

    def advance(
        self,
        row: Any,
        to: StrEnum,
        *,
        actor: str = SYSTEM,
        reason: Reason | None = None,
        code: str = "",
        message: Message = NO_MESSAGE,
        at: datetime | None = None,
        **columns: Any,
    ) -> None:
        """As the function `advance`, but only in memory until `write`.

        Raises IllegalTransitionError, and ValueError for another copy of a row that has moved here.
        """
        old, columns, event = _move(row, to, actor, reason, code, message, at, columns)
        if not row._state.adding:
            self._gather(row, old).columns |= columns
        _set(row, to, columns)
        self._keep(row, event)

    def set_columns(self, row: Any, **columns: Any) -> None:
        """Set columns of a row that moves here, in the same update, or of one that does not. It may
        also be a row without a status."""
        moved = self._gather(row, getattr(row, "status", None))
        for name, value in columns.items():
            setattr(row, name, value)
        moved.columns |= columns

    def record(self, row: Any, code: str, message: Message, *, actor: str = SYSTEM) -> None:
        """As the function `event_record`, but only in memory until `write`."""
        self._keep(row, _recorded(row, code, message, actor, {}))

    def _keep(self, row: Any, event: Event) -> None:
        self._events.append(event)
        if row._state.adding:
            self._new.append((row, event))

    def _gather(self, row: Any, old: str | None) -> _Moved:
        moved = self._moved.setdefault((type(row), row.pk), _Moved(row, old))
        if moved.row is not row:
            raise ValueError(f"another copy of {type(row).__name__} {row.pk} has moved already")
        return moved

    def write(self) -> int:
        """Write what was gathered, and return the id of its newest event, or 0. Call this in the
        transaction that locked the rows: if one of them is no longer in the status that was read,
        StaleStatusError has to roll back all of it.
        """
        alike: dict[tuple[Any, ...], list[_Moved]] = defaultdict(list)
        for moved in self._moved.values():
            row = moved.row
            new = None if moved.old is None else row.status
            alike[type(row), moved.old, new, frozenset(moved.columns)].append(moved)
        with transaction.atomic(savepoint=False):
            for (model, old, new, _), group in alike.items():
                _update_alike(model, old, new, group)
            for row, event in self._new:
                _link(event, row)
            newest = rows_insert(Event, self._events)
            rows = chain(
                (moved.row for moved in self._moved.values()), (row for row, _ in self._new)
            )
            jobs = {row.pk: row for row in rows if _is_job(row)}
            of_jobs = [event for event in self._events if event.noun == "job"]
            _log_on_commit([(jobs[e.job_id], e) for e in of_jobs if e.job_id in jobs])
        self._moved, self._events, self._new = {}, [], []
        return newest


def event_record(
    row: Any,
    code: str,
    message: Message,
    *,
    actor: str = SYSTEM,
    data: dict[str, Any] | None = None,
) -> Event:
    """Write an event about `row` that changes no status."""
    event = _recorded(row, code, message, actor, data or {})
    event.save(force_insert=True)
    return event


def _is_job(row: Any) -> bool:
    return getattr(row, "NOUN", "") == "job"


def _log_on_commit(moves: Sequence[tuple[Any, Event]]) -> None:
    """A line for each move of a job, once it counts; it names the request that submitted the job.

    What the job's row has not loaded is left out: a line of the log costs no query."""
    lines = [
        (event, {"job": row.label, "request_id": row.__dict__.get("request_id")})
        for row, event in moves
        if event.noun == "job" and event.new
    ]
    if lines:
        transaction.on_commit(lambda: _log(lines))


def _log(lines: Sequence[tuple[Event, dict[str, Any]]]) -> None:
    for event, fields in lines:
        known = {name: value for name, value in fields.items() if value}
        log.info("%s %s -> %s", fields["job"], event.old, event.new, extra=known)


def _recorded(row: Any, code: str, message: Message, actor: str, data: dict[str, Any]) -> Event:
    return Event(
        at=timezone.now(),
        noun=row.NOUN,
        noun_id=str(row.pk),
        code=code,
        sentence=message.text[:1024],
        actor=actor,
        data=_with_message(data, message),
        **_links(row),
    )


def _move(
    row: Any,
    to: StrEnum,
    actor: str,
    reason: Reason | None,
    code: str,
    message: Message,
    at: datetime | None,
    columns: dict[str, Any],
) -> tuple[StrEnum, dict[str, Any], Event]:
    """The status that was read, all columns that change with it, and the event, not yet written."""
    old = type(to)(row.status)
    if not is_allowed(EDGES[row.NOUN], old, to):
        raise IllegalTransitionError(f"{row.NOUN} {row.pk}: {old} -> {to}")
    data = _with_message({}, message)
    if reason:
        code, message, data = str(reason.code), reason.message, {"reason": reason.as_dict()}
    if message and hasattr(row, "sentence"):
        # A row with a sentence of its own (a replica) keeps the latest.
        columns = columns | {"code": code, "sentence": message.text[:1024]}
    event = Event(
        at=at or timezone.now(),
        noun=row.NOUN,
        noun_id=str(row.pk),
        old=old,
        new=to,
        code=code,
        sentence=message.text[:1024],
        actor=actor,
        data=data,
        **_links(row),
    )
    return old, columns, event


def _set(row: Any, to: StrEnum, columns: dict[str, Any]) -> None:
    row.status = to
    for name, value in columns.items():
        setattr(row, name, value)


def _update(row: models.Model, old: StrEnum, to: StrEnum, columns: dict[str, Any]) -> None:
    rows = type(row)._default_manager.filter(pk=row.pk, status=old)
    if rows.update(status=to, **columns) != 1:
        raise StaleStatusError(f"{row} is no longer {old}")


def _update_alike(
    model: type[models.Model], old: str | None, new: str | None, group: Sequence[_Moved]
) -> None:
    """All of `group` make the same move, with the same columns."""
    names = [*([] if new is None else ["status"]), *group[0].columns]
    count = rows_update(model, [moved.row for moved in group], names, status=old)
    if stale := len(group) - count:
        raise StaleStatusError(f"{stale} {model.__name__} rows are no longer {old}")


def _with_message(data: dict[str, Any], message: Message) -> dict[str, Any]:
    """Add what the sentence was made of, so that pages can show it in another language."""
    is_own_text = message.key in (NO_MESSAGE.key, VERBATIM)
    return data if is_own_text else data | {"said": message.as_dict()}


def _link(event: Event, row: Any) -> None:
    """Now that the row has its key. Raises ValueError if it was not inserted."""
    if row._state.adding:
        raise ValueError(f"insert the new {type(row).__name__} before what it has gone through")
    event.noun_id = str(row.pk)
    for name, value in _links(row).items():
        setattr(event, name, value)


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
