"""What a pass writes for jobs that it did not place: reservations, and reasons with positions."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

from django.db.models import Q

from portal.database.kept_queries import KeptSelect, ListOf
from portal.jobs.models import Job
from portal.jobs.waiting_columns import waiting_columns_write
from portal.live.bell import is_plan_rung, ring
from portal.planning.reason_additions import with_additions_of
from scheduler.core.model.decisions import Deferral, Reservation

# A queue of this length has what changed written by each pass; a longer one at most once a second.
SHORT_QUEUE, PAUSE_SECONDS = 100, 1.0


@dataclass(slots=True)
class NoticePace:
    """When this process last wrote the reasons of a queue."""

    written_at: float = -inf
    """By the monotonic clock."""

    @property
    def is_recent(self) -> bool:
        return time.monotonic() - self.written_at < PAUSE_SECONDS

    def is_due(self, length: int) -> bool:
        """Whether to write those of a queue of this length; True counts as done."""
        if length > SHORT_QUEUE and self.is_recent:
            return False
        self.written_at = time.monotonic()
        return True

    def reset(self) -> None:
        """Forget the last time: tests change the database."""
        self.written_at = -inf


notice_pace = NoticePace()


def reservations_write(reservations: tuple[Reservation, ...]) -> None:
    """Write the start promised to each job; a job without a reservation loses what it had."""
    starts = {int(r.job): datetime.fromtimestamp(r.starts_at, UTC) for r in reservations}
    queued = Job.objects.queued()
    for pk, reserved_at in _PROMISED.rows(list(starts)) if starts else _RESERVED.rows():
        if starts.get(pk) != reserved_at:
            queued.filter(pk=pk).update(reserved_at=starts.get(pk))
            ring(f"job:{pk}")


_RESERVED = KeptSelect(
    lambda: Job.objects.queued().filter(reserved_at__isnull=False).values_list("pk", "reserved_at")
)
# These, and those that have a reservation.
_PROMISED = KeptSelect(
    lambda jobs: (
        Job.objects.queued()
        .filter(Q(pk__in=jobs) | Q(reserved_at__isnull=False))
        .values_list("pk", "reserved_at")
    ),
    ListOf(Job._meta.pk),
)


def deferrals_write(deferrals: tuple[Deferral, ...]) -> None:
    """Write each waiting job's reason and position where they changed, many in one statement.

    In a long queue each placement moves all positions. So that passes in quick succession do not
    write thousands of rows each, a job that has no reason yet gets it at once, and what has changed
    is written by the first pass after PAUSE_SECONDS; every sweep starts one. Within that time a
    pass that is rung again writes nothing: devices wait for the next one, which decides anew.
    """
    if notice_pace.is_recent and is_plan_rung():
        return
    new, is_due = {int(each.job): each for each in deferrals}, notice_pace.is_due(len(deferrals))
    if not new:
        return
    if is_due:
        written = {pk: (reason, position) for pk, reason, position in _WRITTEN.rows()}
    else:
        new, written = {pk: new[pk] for pk in new.keys() & set(_UNWRITTEN.rows())}, {}
    changed = {}
    for pk, deferral in new.items():
        old, position = written.get(pk, (None, None))
        reason = with_additions_of(deferral.reason.as_dict(), old)
        if (old, position) != (reason, deferral.position):
            changed[pk] = {"reason": reason, "position": deferral.position}
    waiting_columns_write(changed)


_WRITTEN = KeptSelect(
    lambda: (
        Job.objects.queued().filter(reason__isnull=False).values_list("pk", "reason", "position")
    )
)
_UNWRITTEN = KeptSelect(
    lambda: Job.objects.queued().filter(reason__isnull=True).values_list("pk", flat=True)
)
