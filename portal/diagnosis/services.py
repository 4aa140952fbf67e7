"""Why attempts and jobs failed is found by a worker soon after they did; again if a log grows."""

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents.contract.message import Message, read_message
from portal.audit.models import Event
from portal.diagnosis.diagnose import diagnose
from portal.diagnosis.larger_devices import RequestableFleet
from portal.diagnosis.log_ends import replica_log_end
from portal.diagnosis.remedies import remedy_for
from portal.diagnosis.secrets import masked_lines, secret_values
from portal.diagnosis.stored import diagnosis_as_json, finding_as_json
from portal.diagnosis.stored_ends import pull_cause_of
from portal.diagnosis.values import AttemptEnd, FailureFinding, ReplicaEnd
from portal.job_logs.storage import open_logs
from portal.jobs.failures import failure_message
from portal.jobs.models import Attempt, Job, Replica
from portal.live.bell import ring
from portal.planning.inventory_view import current_inventory
from portal.storage.errors import StoreError
from scheduler.core.model.states import JobStatus, ReplicaStatus

# Replicas of a gang whose logs are looked at: those that failed first.
MAX_REPLICAS = 8
# Jobs or attempts of one round; the others have the next one.
MAX_DUE = 50
# The last bytes of a log arrive soon after the end, if they do.
LATE_LOG = timedelta(minutes=10)
# An attempt that was followed by another one is looked at this long after its end.
LATE_ATTEMPT = timedelta(days=1)

log = logging.getLogger(__name__)


def diagnoses_refresh() -> int:
    """Diagnose the failed jobs that have no diagnosis yet, then the failed attempts of other jobs,
    and those whose logs have grown since. How many there were."""
    jobs = _each(due_jobs(), lambda pk: job_diagnose(job_id=pk))
    return jobs + _each(due_attempts(), lambda pk: attempt_diagnose(attempt_id=pk))


def due_jobs() -> list[int]:
    """Primary keys, the last to end first. Two queries."""
    failed = Job.objects.failed().order_by("-finished_at")
    recent = failed.filter(finished_at__gt=timezone.now() - LATE_LOG)
    known = recent.exclude(failure_cause="").with_log_bytes()
    return _due(failed.filter(failure_cause=""), known, "diagnosis")


def due_attempts() -> list[int]:
    """Primary keys, the last to end first. Two queries. The last attempt of a failed job is
    diagnosed with its job."""
    failed = Attempt.objects.failed().order_by("-ended_at")
    now = timezone.now()
    new = failed.filter(finding__isnull=True, ended_at__gt=now - LATE_ATTEMPT)
    known = failed.filter(finding__isnull=False, ended_at__gt=now - LATE_LOG).with_log_bytes()
    return _due(new, known, "finding")


def job_diagnose(*, job_id: int) -> None:
    """Find why a failed job failed and what mends it, and keep that with it and its last attempt.
    Changes nothing else, so no event is written; pages of the job hear of it. Raises StoreError."""
    rows = Job.objects.failed().filter(pk=job_id)
    job = rows.with_log_bytes().first()
    if job is None:
        return
    attempt = job.attempts.order_by("-number").prefetch_related("replicas").first()
    finding = diagnose(_attempt_end(job, attempt))
    stored = _stored(finding, job, attempt)
    diagnosis = diagnosis_as_json(stored, remedy_for(finding, job.request, current_fleet()))
    diagnosis["log_bytes"] = vars(job)["log_bytes"]
    with transaction.atomic():
        if rows.update(failure_cause=str(finding.cause), diagnosis=diagnosis):
            if attempt:
                Attempt.objects.filter(pk=attempt.pk).update(finding=stored)
            ring(f"job:{job_id}")


def attempt_diagnose(*, attempt_id: int) -> None:
    """Find why an attempt failed, and keep that with it. Raises StoreError."""
    rows = Attempt.objects.failed().filter(pk=attempt_id)
    attempt = rows.select_related("job").prefetch_related("replicas").first()
    if attempt is None:
        return
    finding = diagnose(_attempt_end(attempt.job, attempt))
    with transaction.atomic():
        rows.update(finding=_stored(finding, attempt.job, attempt))
        ring(f"job:{attempt.job_id}")


def _each(keys: Sequence[int], find: Callable[[int], None]) -> int:
    """One that cannot be diagnosed does not hold up the others; the next sweep tries it again."""
    for key in keys:
        try:
            find(key)
        except StoreError as error:
            log.warning("a log of %s cannot be read: %s", key, error)
        except Exception:
            log.exception("no diagnosis of %s", key)
    return len(keys)


def _due(new: QuerySet[Any], known: QuerySet[Any], column: str) -> list[int]:
    """`new` have no finding in this column; those of `known`, with `log_bytes`, are due if more of
    their log has arrived than it rests on."""
    keys = list(new.values_list("pk", flat=True)[:MAX_DUE])
    rows = known.values_list("pk", column, "log_bytes")[: 10 * MAX_DUE]
    grown = [pk for pk, stored, size in rows if (stored or {}).get("log_bytes") != size]
    return (keys + grown)[:MAX_DUE]


def _stored(finding: FailureFinding, job: Job, attempt: Attempt | None) -> dict[str, Any]:
    replicas: Iterable[Replica] = attempt.replicas.all() if attempt else ()
    return finding_as_json(
        finding,
        attempt=attempt.number if attempt else 0,
        log_bytes=sum(replica.log_bytes for replica in replicas),
        secrets=_secrets(job),
    )


def _secrets(job: Job) -> list[str]:
    return secret_values(job.request.get("env") or {})


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
        stop_reason=attempt.outcome or job.stop_reason,
        code=str(failure.get("code", "")),
        status=str(failure.get("status", "")),
        message=failure_message(failure) if failure else _last_message(job),
        pull_cause=pull_cause_of(failure_message(failure)),
        replicas=[
            ReplicaEnd(
                row.rank,
                row.exit_code,
                row.memory_kill,
                # Before anything is cut: half of a secret would not be recognised.
                masked_lines(replica_log_end(row), _secrets(job)),
            )
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
