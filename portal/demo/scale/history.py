"""Lines of history, samples of sensors, first answers of starts, and audit lines."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from agents.contract.codec import encode
from agents.contract.telemetry import GpuSample
from portal.audit.models import AuditEntry, Event
from portal.demo.scale.jobs import Work
from portal.demo.scale.people import ADMIN, People
from portal.demo.scale.size import DAYS, Chance
from portal.inventory.models import Gpu, LatestSample
from portal.jobs.models import Job, StartEstimate
from scheduler.core.model.states import JOB_FINAL, GpuHealth, JobStatus

AT_ONCE = 1_000
SECOND = timedelta(seconds=1)
AUDITED = ("quota_set", "node_cordon", "node_label", "membership_set", "job_approve")


def history_write(chance: Chance, work: Work, gpus: list[Gpu], people: People) -> int:
    events = [event for job in work.jobs for event in _events(job)]
    Event.objects.bulk_create(events, batch_size=AT_ONCE)
    samples = [_sample(chance, gpu) for gpu in gpus if gpu.health == GpuHealth.OK]
    LatestSample.objects.bulk_create(samples, batch_size=AT_ONCE)
    waiting = [job for job in work.jobs if job.estimate]
    StartEstimate.objects.bulk_create((_answer(chance, j) for j in waiting), batch_size=AT_ONCE)
    audited = [_audit(chance, people, nth) for nth in range(min(2_000, len(work.jobs) // 5))]
    AuditEntry.objects.bulk_create(audited, batch_size=AT_ONCE)
    return len(events) + len(samples) + len(waiting) + len(audited)


def _events(job: Job) -> Iterator[Event]:
    """From the job's own columns, so that they agree."""
    queued, status = job.queued_at, JobStatus(job.status)
    assert queued is not None, "every seeded job was asked for"  # noqa: S101
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


def _sample(chance: Chance, gpu: Gpu) -> LatestSample:
    busy = chance.random.randint(0, 100)
    sample = GpuSample(
        uuid=gpu.uuid,
        utilization_percent=busy if gpu.observed_mode != "mig" else None,
        memory_used_mib=gpu.memory_mib * busy // 110,
        memory_total_mib=gpu.memory_mib,
        temperature_c=34 + busy // 2,
        power_mw=90_000 + busy * 5_500,
        power_limit_mw=700_000,
    )
    return LatestSample(gpu=gpu, taken_at=chance.now - 3 * SECOND, sample=encode(sample))


def _answer(chance: Chance, job: Job) -> StartEstimate:
    told = job.estimate or {}
    asked = job.queued_at or chance.now
    times = [asked + SECOND * chance.random.randint(60, 9_000) for _ in range(3)]
    low, middle, high = sorted(times)
    return StartEstimate(
        job=job,
        estimated_at=asked,
        optimistic=low,
        expected=middle,
        pessimistic=high,
        basis=str(told.get("basis", ""))[:200],
    )


def _audit(chance: Chance, people: People, nth: int) -> AuditEntry:
    project = chance.random.choice(people.projects)
    return AuditEntry(
        at=chance.now - timedelta(days=DAYS * (1 - nth / 2_000)),
        actor=ADMIN,
        action=chance.random.choice(AUDITED),
        noun="quota",
        noun_id=project.slug,
        project=project,
        before={"limit_units": 56_000},
        after={"limit_units": 112_000},
    )
