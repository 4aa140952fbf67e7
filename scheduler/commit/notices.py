"""What a pass writes for jobs that it did not place: reservations, and reasons with positions."""

from datetime import UTC, datetime

from django.db.models import Q

from portal.jobs.models import Job
from portal.live.bell import ring
from portal.planning.alternatives import with_alternatives_of
from scheduler.core.model.decisions import Deferral, Reservation

BATCH_SIZE, MAX_BELLS = 500, 1_000


def reservations_write(reservations: tuple[Reservation, ...]) -> None:
    """Write the start promised to each job; a job without a reservation loses what it had."""
    starts = {int(r.job): datetime.fromtimestamp(r.starts_at, UTC) for r in reservations}
    queued = Job.objects.queued()
    rows = queued.filter(Q(pk__in=starts) | Q(reserved_at__isnull=False))
    for pk, reserved_at in rows.values_list("pk", "reserved_at"):
        if starts.get(pk) != reserved_at:
            queued.filter(pk=pk).update(reserved_at=starts.get(pk))
            ring(f"job:{pk}")


def deferrals_write(deferrals: tuple[Deferral, ...]) -> None:
    """Write each waiting job's reason and position where they changed, many in one query.

    Only the first MAX_BELLS jobs are rung: a page far back in a long queue polls.
    """
    queued = Job.objects.queued()
    rows = queued.filter(reason__isnull=False).values_list("pk", "reason", "position")
    written = {pk: (reason, position) for pk, reason, position in rows}
    changed = [
        Job(pk=int(deferral.job), reason=reason, position=deferral.position)
        for deferral in deferrals
        for old, position in (written.get(int(deferral.job), (None, None)),)
        for reason in (with_alternatives_of(deferral.reason.as_dict(), old),)
        if (old, position) != (reason, deferral.position)
    ]
    queued.bulk_update(changed, ["reason", "position"], batch_size=BATCH_SIZE)
    for job in changed[:MAX_BELLS]:
        ring(f"job:{job.pk}")
