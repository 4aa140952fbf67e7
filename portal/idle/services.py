"""The policy of a project, and the round that warns and stops its idle jobs."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Sum

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from portal.accounts.models import Project
from portal.allocations.models import Allocation
from portal.audit.codes import AuditAction, EventCode
from portal.audit.services import audit_record
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.idle.judgement import NEWEST_AGE, IdleTime, idle_time, idle_with_kernels
from portal.idle.models import IdlePolicy, IdleSpell
from portal.idle.selectors import device_counts, kernel_times, measured_minutes
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Job, StopReason
from portal.live.bell import ring
from scheduler.core.model.states import JobStatus

THRESHOLD_BOUNDS = (1, 50)
MINUTES_BOUNDS = (10, 24 * 60)
# Between the warning and the stop there is at least this.
MIN_NOTICE_MINUTES = 5


def idle_policy_set(
    *,
    project: Project,
    threshold_percent: int,
    warn_minutes: int | None,
    stop_minutes: int | None,
    actor: str,
) -> None:
    """`warn_minutes` None: the project has no policy. Raises Refused."""
    _check(threshold_percent, warn_minutes, stop_minutes)
    with transaction.atomic():
        before = IdlePolicy.objects.filter(project=project).first()
        old = _as_dict(before)
        after: IdlePolicy | None = None
        if warn_minutes is None:
            IdlePolicy.objects.filter(project=project).delete()
            IdleSpell.objects.filter(job__project=project, stopped_at=None).delete()
        else:
            after = IdlePolicy(
                project=project,
                threshold_percent=threshold_percent,
                warn_minutes=warn_minutes,
                stop_minutes=stop_minutes,
            )
            IdlePolicy.objects.bulk_create(
                [after],
                update_conflicts=True,
                unique_fields=["project"],
                update_fields=["threshold_percent", "warn_minutes", "stop_minutes"],
            )
        if old != (new := _as_dict(after)):
            audit_record(
                actor=actor,
                action=AuditAction.IDLE_POLICY_SET,
                noun="project",
                noun_id=project.slug,
                project=project,
                before=old,
                after=new,
            )


def _check(threshold_percent: int, warn_minutes: int | None, stop_minutes: int | None) -> None:
    least, most = THRESHOLD_BOUNDS
    if not least <= threshold_percent <= most:
        sentence = Message("from %(least)s to %(most)s", least=least, most=most)
        raise Refused(ErrorCode.POLICY_INVALID, sentence, "idle_threshold_percent")
    least, most = MINUTES_BOUNDS
    for name, minutes in (("idle_warn_minutes", warn_minutes), ("idle_stop_minutes", stop_minutes)):
        if minutes is not None and not least <= minutes <= most:
            sentence = Message("from %(least)s to %(most)s", least=least, most=most)
            raise Refused(ErrorCode.POLICY_INVALID, sentence, name)
    if stop_minutes is None:
        return
    if warn_minutes is None:
        raise Refused(
            ErrorCode.POLICY_INVALID, "Jobs are warned before they are stopped", "idle_warn_minutes"
        )
    if stop_minutes < warn_minutes + MIN_NOTICE_MINUTES:
        sentence = Message("at least %(n)s minutes after the warning", n=MIN_NOTICE_MINUTES)
        raise Refused(ErrorCode.POLICY_INVALID, sentence, "idle_stop_minutes")


def _as_dict(policy: IdlePolicy | None) -> dict[str, int | None]:
    if policy is None:
        return {}
    return {
        "threshold_percent": policy.threshold_percent,
        "warn_minutes": policy.warn_minutes,
        "stop_minutes": policy.stop_minutes,
    }


def idle_jobs_sweep(now: datetime) -> None:
    """One round over the running jobs of projects with a policy. One query without any."""
    policies = {policy.project_id: policy for policy in IdlePolicy.objects.all()}
    spells = IdleSpell.objects.filter(stopped_at=None)
    if not policies:
        return
    spells.exclude(job__status=JobStatus.RUNNING).delete()
    jobs = [
        job
        for job in Job.objects.filter(status=JobStatus.RUNNING, project__in=policies)
        if job.request.get("idle_stop", True)
    ]
    longest = max(max(p.warn_minutes, p.stop_minutes or 0) for p in policies.values())
    since = now - timedelta(minutes=longest) - NEWEST_AGE
    keys = [job.pk for job in jobs]
    minutes, devices = measured_minutes(keys, since), device_counts(keys)
    notebooks = {job.pk for job in jobs if job.request.get("launcher") == LauncherName.JUPYTER}
    kernels = kernel_times(notebooks)
    known = {spell.job_id: spell for spell in spells}
    for job in jobs:
        policy = policies[job.project_id]
        idle = idle_time(
            minutes.get(job.pk, []),
            devices=devices.get(job.pk, 0),
            threshold_percent=policy.threshold_percent,
            now=now,
        )
        if job.pk in notebooks:
            idle = idle_with_kernels(idle, kernels.get(job.pk), now)
        _judge(job, policy, idle, known.pop(job.pk, None), now)
    # Of jobs that are exempt by now, and of projects that have no policy any more.
    IdleSpell.objects.filter(pk__in=list(known), stopped_at=None).delete()


def _judge(
    job: Job, policy: IdlePolicy, idle: IdleTime | None, spell: IdleSpell | None, now: datetime
) -> None:
    is_idle = idle is not None and now - idle.since >= timedelta(minutes=policy.warn_minutes)
    if idle is None or not is_idle:
        if spell is not None:
            spell.delete()
            ring(f"job:{job.pk}")
        return
    # Activity between two rounds begins another spell; a longer window finds the same one earlier.
    if spell is None or idle.since > spell.warned_at:
        _warn(job, policy, idle, now)
    elif policy.stop_minutes is None:
        IdleSpell.objects.filter(pk=spell.pk).update(stops_at=None, peak_percent=idle.peak_percent)
    elif spell.stops_at is None:
        at = _stops_at(policy, min(idle.since, spell.since), now)
        IdleSpell.objects.filter(pk=spell.pk).update(stops_at=at, peak_percent=idle.peak_percent)
    elif now >= spell.stops_at:
        _stop(job, policy, spell, idle, now)


def _stops_at(policy: IdlePolicy, since: datetime, now: datetime) -> datetime | None:
    """Never earlier than the promised time after the warning."""
    if policy.stop_minutes is None:
        return None
    notice = timedelta(minutes=policy.stop_minutes - policy.warn_minutes)
    return max(since + timedelta(minutes=policy.stop_minutes), now + notice)


def _warn(job: Job, policy: IdlePolicy, idle: IdleTime, now: datetime) -> None:
    with transaction.atomic():
        stops_at = _stops_at(policy, idle.since, now)
        IdleSpell.objects.update_or_create(
            job=job,
            defaults={
                "since": idle.since,
                "warned_at": now,
                "peak_percent": idle.peak_percent,
                "stops_at": stops_at,
            },
        )
        message = Message(
            "idle for %(minutes)s min: its GPUs were at most %(peak)s %% active",
            minutes=_minutes(idle.since, now),
            peak=idle.peak_percent,
        )
        data = {"stops_at": stops_at.isoformat() if stops_at else ""}
        event_record(job, EventCode.JOB_IDLE, message, data=data)
        ring(f"job:{job.pk}")


def _stop(job: Job, policy: IdlePolicy, spell: IdleSpell, idle: IdleTime, now: datetime) -> None:
    with transaction.atomic():
        for row in Job.objects.filter(pk=job.pk, status=JobStatus.RUNNING).lock_rows():
            IdleSpell.objects.filter(pk=spell.pk).update(
                stopped_at=now,
                peak_percent=idle.peak_percent,
                reclaimed_unit_seconds=_left_unit_seconds(row, now),
            )
            message = Message(
                "idle for %(minutes)s min: its GPUs were at most %(peak)s %% active, and its"
                " project stops jobs that stay below %(threshold)s %% for %(stop)s min",
                minutes=_minutes(min(idle.since, spell.since), now),
                peak=idle.peak_percent,
                threshold=policy.threshold_percent,
                stop=policy.stop_minutes or 0,
            )
            job_stop(job=row, stop_reason=StopReason.IDLE, message=message)
            ring(f"job:{row.pk}")


def _left_unit_seconds(job: Job, now: datetime) -> int:
    rows = Allocation.objects.live().filter(replica__attempt__job=job)
    units = rows.aggregate(n=Sum("units"))["n"] or 0
    left = (job.deadline_at - now).total_seconds() if job.deadline_at else 0
    return int(units) * max(0, int(left))


def _minutes(since: datetime, now: datetime) -> int:
    return int((now - since).total_seconds() // 60)
