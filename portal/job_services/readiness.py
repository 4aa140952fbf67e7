"""Whether copies of services take calls: which are to be asked now, and what came of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from portal.job_services.models import ServiceCopy
from portal.jobs.models import Replica
from portal.live.bell import ring, ring_services
from portal.tunnel.streams import Target

# A copy that starts is asked more often: calls may wait for it.
START_PAUSE, READY_PAUSE = timedelta(seconds=1), timedelta(seconds=5)
# A ready copy that fails so often in a row takes no more calls.
MAX_FAILURES = 3


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A copy to be asked now, by whoever has claimed it."""

    copy_pk: int
    target: Target
    path: str


def checks_claim(now: datetime, limit: int) -> list[HealthCheck]:
    """Up to `limit` running copies that are due, the longest due first. Each is returned to one web
    process. One query if there are none."""
    rows = Replica.objects.first_of_running_jobs().filter(
        attempt__job__service_copy__check_due_at__lte=now,
        attempt__job__service_copy__leaves_at=None,
        attempt__job__service_copy__ended_at=None,
    )
    found = []
    rows = rows.order_by("attempt__job__service_copy__check_due_at")
    for replica in rows.select_related("attempt__job__service_copy__service")[:limit]:
        copy = replica.attempt.job.service_copy
        pause = READY_PAUSE if copy.ready_attempt == replica.attempt_id else START_PAUSE
        mine = ServiceCopy.objects.filter(pk=copy.pk, check_due_at=copy.check_due_at)
        if mine.update(check_due_at=now + pause) and replica.node_id is not None:
            target = Target(replica.node_id, replica.attempt_id, 0, copy.port)
            found.append(HealthCheck(copy.pk, target, copy.service.health_path))
    return found


def check_record(*, check: HealthCheck, is_healthy: bool, now: datetime) -> None:
    """Note what came of it. Rings if the copy takes calls from now on, or no more."""
    attempt = check.target.attempt_id
    with transaction.atomic():
        rows = ServiceCopy.objects.filter(pk=check.copy_pk)
        for copy in rows.open().lock_rows():
            was_ready = copy.ready_attempt == attempt
            copy.check_failures = 0 if is_healthy else copy.check_failures + 1
            if is_healthy and not was_ready:
                copy.ready_attempt, copy.ready_at = attempt, now
            elif not is_healthy and was_ready and copy.check_failures >= MAX_FAILURES:
                copy.ready_attempt, copy.unready_at = 0, now
            copy.save(update_fields=["check_failures", "ready_attempt", "ready_at", "unready_at"])
            if was_ready != (copy.ready_attempt == attempt):
                ring(f"service:{copy.service_id}")
                ring_services()
