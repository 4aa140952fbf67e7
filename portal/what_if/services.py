"""Creates what-ifs, runs them, and stores their outcomes. The cluster does not change."""

import logging
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import User
from portal.accounts.rights import require_platform_admin
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.live.bell import ring_what_if
from portal.what_if.models import CUT_OFF, LEASE, OPEN, WhatIf, WhatIfStatus
from portal.what_if.progress import ProgressRecorder, WhatIfCancelled
from portal.what_if.recorded_jobs import current_scenario, recorded_window, require_recorded_jobs
from scheduler.what_if.changes import ClusterChange
from scheduler.what_if.comparison import Comparison, Progress, apply_changes, compare
from scheduler.what_if.errors import ChangeRefusedError
from scheduler.what_if.json_format import read_changes, write_change

MAX_OPEN = 3
MAX_CHARACTERS = 400

log = logging.getLogger(__name__)


def what_if_create(*, user: User, days: int, changes: Iterable[Any]) -> WhatIf:
    """Store a what-if for a worker to run. Raises Refused(forbidden, days_invalid, no_jobs,
    too_many_jobs, change_invalid, busy)."""
    require_platform_admin(user)
    now = timezone.now()
    require_recorded_jobs(now=now, days=days)
    try:
        read = read_changes(changes)
        apply_changes(current_scenario(now=now, days=days), read)
    except ChangeRefusedError as refused:
        raise _as_refused(refused) from refused
    with transaction.atomic():
        fresh = Q(status__in=OPEN, stamped_at__gte=now - LEASE)
        ahead = list(WhatIf.objects.filter(fresh).order_by("pk").values_list("pk", flat=True))
        if len(ahead) >= MAX_OPEN:
            busy = Message(
                "%(n)s what-ifs are open. Wait until one is done, or cancel one", n=MAX_OPEN
            )
            raise Refused(ErrorCode.BUSY, busy)
        stored = [write_change(change) for change in read]
        row = WhatIf.objects.create(
            requester=user, days=days, changes=stored, **_message_columns(_waits_for(ahead))
        )
        _audit(user.username, row.pk, days, read)
        ring_what_if(row.pk)
    return row


def what_if_compare(
    *,
    days: int = 7,
    changes: Iterable[ClusterChange] = (),
    actor: str,
    progress: Progress = lambda done, of: None,
) -> Comparison:
    """Run a what-if at once, for the command line. Raises Refused as `what_if_create`."""
    changes = tuple(changes)
    found = _compared(days, changes, progress)
    _audit(actor, "", days, changes)
    return found


def what_if_cancel(*, user: User, row: WhatIf) -> WhatIf:
    """Its worker stops within seconds. Raises Refused(forbidden, what_if_over)."""
    require_platform_admin(user)
    now = timezone.now()
    with transaction.atomic():
        mine = WhatIf.objects.filter(pk=row.pk, status__in=OPEN)
        if not mine.update(status=WhatIfStatus.CANCELLED, stamped_at=now, finished_at=now):
            raise Refused(ErrorCode.WHAT_IF_OVER, "This what-if has already ended")
        audit_record(
            actor=user.username, action=AuditAction.WHAT_IF_CANCEL, noun="what_if", noun_id=row.pk
        )
    row.refresh_from_db()
    return row


def what_if_next() -> int | None:
    """The number of the what-if to run now; None if none waits, or one runs."""
    rows = WhatIf.objects.filter(stamped_at__gte=timezone.now() - LEASE)
    if rows.filter(status=WhatIfStatus.RUNNING).exists():
        return None
    waiting = rows.filter(status=WhatIfStatus.REQUESTED).order_by("pk")
    return waiting.values_list("pk", flat=True).first()


def what_ifs_run_waiting() -> None:
    """Run those that wait, one after the other, until none does or another process runs one."""
    while (number := what_if_next()) is not None:
        if not what_if_run(what_if_id=number):
            return


def what_if_run(*, what_if_id: int) -> bool:
    """Run one what-if. False if it or another one runs, or it is over."""
    row = _claimed(what_if_id)
    if row is None:
        return False
    try:
        found = _compared(row.days, read_changes(row.changes), ProgressRecorder(row.pk))
    except WhatIfCancelled:
        log.info("what-if %s was cancelled", row.pk)
    except (Refused, ChangeRefusedError) as refused:
        _finish(row, WhatIfStatus.FAILED, **_message_columns(refused.message))
    except (KeyboardInterrupt, SystemExit):
        stopped = Message("Its worker was stopped before it was done. Submit it again")
        _finish(row, WhatIfStatus.FAILED, **_message_columns(stopped))
        raise
    except Exception:
        log.exception("what-if %s failed", row.pk)
        failed = Message("It failed. See the worker's log")
        _finish(row, WhatIfStatus.FAILED, **_message_columns(failed))
        raise
    else:
        _finish(row, WhatIfStatus.DONE, outcome=asdict(found), progress=100)
    return True


def _compared(days: int, changes: tuple[ClusterChange, ...], progress: Progress) -> Comparison:
    now = timezone.now()
    require_recorded_jobs(now=now, days=days)
    setting, week = current_scenario(now=now, days=days), recorded_window(now=now, days=days)
    try:
        return compare(setting, week, changes, progress)
    except ChangeRefusedError as refused:
        raise _as_refused(refused) from refused


def _claimed(pk: int) -> WhatIf | None:
    """The row, if it waits and no other what-if runs. One whose process died has failed."""
    now = timezone.now()
    dead = WhatIf.objects.filter(status=WhatIfStatus.RUNNING, stamped_at__lt=now - LEASE)
    waiting = WhatIf.objects.filter(status=WhatIfStatus.REQUESTED, pk=pk)
    try:
        with transaction.atomic():
            dead.update(status=WhatIfStatus.FAILED, finished_at=now, **_message_columns(CUT_OFF))
            taken = waiting.update(
                status=WhatIfStatus.RUNNING, stamped_at=now, progress=0, **_message_columns(None)
            )
    except IntegrityError:
        # The constraint `what_if_one_runs`.
        return None
    return WhatIf.objects.get(pk=pk) if taken else None


def _waits_for(ahead: list[int]) -> Message | None:
    if not ahead:
        return None
    numbers = ", ".join(str(number) for number in ahead)
    return Message("It waits for what-if %(numbers)s: one runs at a time", numbers=numbers)


def _message_columns(message: Message | None) -> dict[str, Any]:
    """The columns of a message."""
    if message is None:
        return {"sentence": "", "message": None}
    return {"sentence": message.text[:MAX_CHARACTERS], "message": message.as_dict()}


def _finish(row: WhatIf, status: WhatIfStatus, **columns: Any) -> None:
    now = timezone.now()
    WhatIf.objects.filter(pk=row.pk, status=WhatIfStatus.RUNNING).update(
        status=status, stamped_at=now, finished_at=now, **columns
    )


def _as_refused(refused: ChangeRefusedError) -> Refused:
    field = refused.field if refused.field == "days" else f"changes.{refused.field}".rstrip(".")
    return Refused(ErrorCode.CHANGE_INVALID, refused.message, field)


def _audit(actor: str, row: object, days: int, changes: Iterable[ClusterChange]) -> None:
    facts = {"days": days, "changes": [str(change) for change in changes]}
    audit_record(actor=actor, action=AuditAction.WHAT_IF, noun="what_if", noun_id=row, after=facts)
