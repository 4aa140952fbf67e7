"""Diagnoses are made once, by a worker, when a job has failed; again if its log grows later."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from agents.contract.message import Message, read_message
from portal.audit.models import Event
from portal.diagnosis.diagnose import diagnose
from portal.diagnosis.larger_devices import RequestableFleet
from portal.diagnosis.log_ends import replica_log_end
from portal.diagnosis.remedies import remedy_for
from portal.diagnosis.secrets import secret_values
from portal.diagnosis.stored import stored_diagnosis
from portal.diagnosis.stored_ends import pull_cause_of
from portal.diagnosis.values import AttemptEnd, ReplicaEnd
from portal.job_logs.storage import open_logs
from portal.jobs.failures import failure_message
from portal.jobs.models import Attempt, Job, Replica
from portal.live.bell import ring
from portal.planning.inventory_view import current_inventory
from portal.storage.errors import StoreError
from scheduler.core.model.states import JobStatus, ReplicaStatus

# Replicas of a gang whose logs are looked at: those that failed first.
MAX_REPLICAS = 8
# Jobs of one round; the others have the next one.
JOBS_TOGETHER = 50
# The last bytes of a log arrive soon after the end, if they do.
LATE_LOG = timedelta(minutes=10)

log = logging.getLogger(__name__)


def diagnoses_refresh() -> int:
    """Diagnose the jobs that have no diagnosis yet, and those whose logs have grown since. How many
    there were."""
    due = due_jobs()
    for job_id in due:
        job_diagnose(job_id=job_id)
    return len(due)


def due_jobs() -> list[int]:
    """Primary keys, the last to end first. Two queries."""
    failed = Job.objects.failed().order_by("-finished_at")
    new = list(failed.filter(failure_cause="").values_list("pk", flat=True)[:JOBS_TOGETHER])
    recent = failed.exclude(failure_cause="").filter(finished_at__gt=timezone.now() - LATE_LOG)
    with_bytes = recent.with_log_bytes().only("diagnosis")[: 10 * JOBS_TOGETHER]
    grown = [job.pk for job in with_bytes if _has_grown(job)]
    return (new + grown)[:JOBS_TOGETHER]


def _has_grown(job: Job) -> bool:
    """A job with `log_bytes`: whether more of its log has arrived than its diagnosis rests on."""
    known: int | None = (job.diagnosis or {}).get("log_bytes")
    return known != int(vars(job)["log_bytes"])


def job_diagnose(*, job_id: int) -> None:
    """Find the cause of a failed job and keep it with the job. Changes nothing else, so no event is
    written; pages of the job hear of it."""
    rows = Job.objects.failed().filter(pk=job_id)
    job = rows.with_log_bytes().first()
    if job is None:
        return
    attempts = job.attempts.order_by("-number").prefetch_related("replicas")
    attempt = attempts.first()
    try:
        finding = diagnose(_attempt_end(job, attempt))
    except StoreError as error:
        # The logs are there again later; the next sweep tries again.
        log.warning("no diagnosis of %s: %s", job.label, error)
        return
    stored = stored_diagnosis(
        finding,
        remedy_for(finding, job.request, current_fleet()),
        attempt=attempt.number if attempt else 0,
        log_bytes=vars(job)["log_bytes"],
        secrets=secret_values(job.request.get("env") or {}),
    )
    if rows.update(failure_cause=str(finding.cause), diagnosis=stored):
        ring(f"job:{job_id}")


def current_fleet() -> RequestableFleet:
    """The GPUs and the largest node of today, and the longest time limit."""
    nodes = current_inventory().host_nodes
    boards = {board.key: board for node in nodes for board in node.boards}
    return RequestableFleet(
        boards=tuple(boards[key] for key in sorted(boards)),
        host_memory_mib=max((node.memory_mib for node in nodes), default=0),
        max_time_limit_seconds=settings.PLATFORM.max_time_limit_seconds,
    )


def _attempt_end(job: Job, attempt: Attempt | None) -> AttemptEnd:
    if attempt is None:
        return AttemptEnd(stop_reason=job.stop_reason, message=_last_message(job))
    failure: dict[str, Any] = attempt.first_failure or {}
    failed = _failed_replicas(attempt, failure)
    open_logs(failed)
    return AttemptEnd(
        stop_reason=job.stop_reason,
        code=str(failure.get("code", "")),
        status=str(failure.get("status", "")),
        message=failure_message(failure) if failure else _last_message(job),
        pull_cause=pull_cause_of(failure_message(failure)),
        replicas=[
            ReplicaEnd(row.rank, row.exit_code, row.memory_kill, replica_log_end(row))
            for row in failed
        ],
    )


def _failed_replicas(attempt: Attempt, failure: dict[str, Any]) -> Sequence[Replica]:
    """Those that ended by themselves with an error, the first to fail first."""
    failed = [
        row
        for row in attempt.replicas.all()
        if row.status == ReplicaStatus.EXITED
        and row.exit_code != 0
        and (row.ended_unasked or row.rank == failure.get("rank"))
    ]
    for row in failed:
        row.attempt = attempt
    first = failure.get("rank")
    latest = timezone.now()
    failed.sort(key=lambda row: (row.rank != first, row.finished_at or latest, row.rank))
    return failed[:MAX_REPLICAS]


def _last_message(job: Job) -> Message | None:
    """What the history says of the end."""
    ends = Event.objects.filter(
        job=job, noun=Job.NOUN, new__in=(JobStatus.FAILED, JobStatus.TIMED_OUT)
    )
    event = ends.order_by("-id").first()
    return read_message(event.data.get("said"), event.sentence) if event else None
