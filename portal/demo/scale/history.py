"""Events, sensor samples, first start estimates and audit entries."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from agents.contract.codec import encode
from agents.contract.telemetry import GpuSample
from portal.audit.codes import AuditAction
from portal.audit.models import AuditEntry, Event
from portal.demo.scale.jobs import JobRows
from portal.demo.scale.people import ADMIN, People
from portal.demo.scale.size import DAYS, SeededRandom
from portal.inventory.models import Gpu, LatestSample
from portal.jobs.models import Job, StartEstimate
from scheduler.core.model.states import JOB_FINAL, GpuHealth, JobStatus

BATCH_SIZE = 1_000
SECOND = timedelta(seconds=1)
AUDITED = (
    AuditAction.QUOTA_SET,
    AuditAction.NODE_CORDON,
    AuditAction.NODE_LABEL,
    AuditAction.MEMBERSHIP_SET,
    AuditAction.JOB_APPROVE,
)


def history_write(rng: SeededRandom, work: JobRows, gpus: list[Gpu], people: People) -> int:
    events = [event for job in work.jobs for event in _events(job)]
    Event.objects.bulk_create(events, batch_size=BATCH_SIZE)
    samples = [_sample(rng, gpu) for gpu in gpus if gpu.health == GpuHealth.OK]
    LatestSample.objects.bulk_create(samples, batch_size=BATCH_SIZE)
    waiting = [job for job in work.jobs if job.estimate]
    StartEstimate.objects.bulk_create(
        (_first_estimate(rng, j) for j in waiting), batch_size=BATCH_SIZE
    )
    audited = [_audit(rng, people, nth) for nth in range(min(2_000, len(work.jobs) // 5))]
    AuditEntry.objects.bulk_create(audited, batch_size=BATCH_SIZE)
    return len(events) + len(samples) + len(waiting) + len(audited)


def _events(job: Job) -> Iterator[Event]:
    """The events that the job's own columns imply."""
    queued, status = job.queued_at, JobStatus(job.status)
    assert queued is not None, "every seeded job has been submitted"  # noqa: S101
    yield _event(job, queued, "", "submitted", actor=job.owner.username)
    if status is JobStatus.AWAITING_APPROVAL:
        data = {"reason": job.reason} if job.reason else {}
        yield _event(job, queued, "submitted", status, data=data)
        return
    if status is JobStatus.SUBMITTED:
        return
    yield _event(job, queued, "submitted", "queued", actor=job.owner.username)
    if status is JobStatus.QUEUED:
        return
    started = job.started_at or queued + 20 * SECOND
    yield _event(job, started - 5 * SECOND, "queued", "placed")
    if status is JobStatus.PLACED:
        return
    yield _event(job, started - 4 * SECOND, "placed", "preparing")
    if job.started_at is None:
        return
    yield _event(job, started, "preparing", "running")
    if status is JobStatus.STOPPING:
        yield _event(job, started + SECOND, "running", status)
    if status in JOB_FINAL and job.finished_at:
        yield _event(job, job.finished_at, "running", status, code=job.stop_reason)


def _event(
    job: Job,
    at: datetime,
    old: str,
    new: str,
    *,
    code: str = "",
    actor: str = "system",
    data: dict[str, Any] | None = None,
) -> Event:
    return Event(
        at=at,
        noun="job",
        noun_id=str(job.pk),
        job_id=job.pk,
        project_id=job.project_id,
        old=old,
        new=str(new),
        code=code,
        actor=actor,
        data=data or {},
    )


def _sample(rng: SeededRandom, gpu: Gpu) -> LatestSample:
    busy = rng.random.randint(0, 100)
    sample = GpuSample(
        uuid=gpu.uuid,
        utilization_percent=busy if gpu.observed_mode != "mig" else None,
        memory_used_mib=gpu.memory_mib * busy // 110,
        memory_total_mib=gpu.memory_mib,
        temperature_c=34 + busy // 2,
        power_mw=90_000 + busy * 5_500,
        power_limit_mw=700_000,
    )
    return LatestSample(gpu=gpu, taken_at=rng.now - 3 * SECOND, sample=encode(sample))


def _first_estimate(rng: SeededRandom, job: Job) -> StartEstimate:
    stored = job.estimate or {}
    queued_at = job.queued_at or rng.now
    times = [queued_at + SECOND * rng.random.randint(60, 9_000) for _ in range(3)]
    low, middle, high = sorted(times)
    return StartEstimate(
        job=job,
        estimated_at=queued_at,
        optimistic=low,
        expected=middle,
        pessimistic=high,
        basis=str(stored.get("basis", ""))[:200],
    )


def _audit(rng: SeededRandom, people: People, nth: int) -> AuditEntry:
    project = rng.random.choice(people.projects)
    return AuditEntry(
        at=rng.now - timedelta(days=DAYS * (1 - nth / 2_000)),
        actor=ADMIN,
        action=rng.random.choice(AUDITED),
        noun="quota",
        noun_id=project.slug,
        project=project,
        before={"limit_units": 56_000},
        after={"limit_units": 112_000},
    )
