"""Jobs of the past as rows, which a what-if replays."""

from datetime import datetime, timedelta

from django.utils import timezone

from portal.accounts.models import User
from portal.jobs.models import Attempt, Job
from portal.quotas.services import quota_set
from tests.support.rows import HonestNode, a_job, a_node, a_project

HOUR = timedelta(hours=1)
SLICE = {"device": {"mig": "3g.71gb"}}


def ran(
    job: Job, *, now: datetime, queued: timedelta, waited: float = 0, hours: float = 1.0
) -> Job:
    """As if it had been queued that long before `now`, had waited (hours), and had run."""
    queued_at = now - queued
    start = queued_at + timedelta(hours=waited)
    end = start + timedelta(hours=hours)
    Job.objects.filter(pk=job.pk).update(
        queued_at=queued_at,
        submitted_at=queued_at,
        started_at=start,
        finished_at=end,
        status="succeeded",
    )
    times = {"created_at": start, "ended_at": end}
    Attempt.objects.update_or_create(job=job, number=1, defaults=times)
    return job


def a_recorded_week(user: User) -> HonestNode:
    """Two projects on two MIG GPUs; half a GPU of quota lets vision run one slice at a time."""
    # One moment for all: what is compared to the second must not be counted from two.
    now = timezone.now().replace(microsecond=0)
    vision, speech = a_project("vision", user), a_project("speech", user)
    quota_set(project=vision, limit_units=28_000, actor="root")
    for number in range(4):
        job = a_job(user, vision, name=f"run-{number}", **SLICE)
        ran(job, now=now, queued=50 * HOUR, waited=number)
    ran(a_job(user, speech, **SLICE), now=now, queued=49 * HOUR)
    return a_node("node-a", gpus=2)
