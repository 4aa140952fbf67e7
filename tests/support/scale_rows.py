"""A seeded cluster in the test's database, and the values for the addresses of its pages."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from django.test import Client

from portal.accounts.models import User
from portal.arrays.models import JobArray
from portal.demo.scale import ClusterSize, seed_scale
from portal.jobs.models import Job, Replica
from scheduler.core.model.states import JobStatus
from tests.support.many_jobs import many_jobs

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


def seeded(size: ClusterSize, *, seed: int = 1, now: datetime = NOW, password: str = "") -> None:
    seed_scale(size, seed=seed, now=now, password=password)


def known() -> dict[str, str]:
    """A running job of alice, its node, the first project, and a job to approve."""
    alice = User.objects.get(username="alice")
    job = Job.objects.filter(owner=alice, status=JobStatus.RUNNING).latest("pk")
    asked = Job.objects.filter(status=JobStatus.AWAITING_APPROVAL).latest("pk")
    node = Replica.objects.filter(attempt__job=job).select_related("node").earliest("rank").node
    assert node
    found = {"job": job.label, "asked": asked.label, "project": "vision", "node": node.name}
    return found | {"array": (JobArray.objects.first() or an_array(job)).label}


def an_array(like: Job) -> JobArray:
    """A sweep with a tenth as many members as there are jobs: most wait, some have ended."""
    size = max(4, Job.objects.count() // 10)
    request = like.request | {"array": "%10", "sweep": [f"seed={','.join(map(str, range(size)))}"]}
    array = JobArray.objects.create(
        project=like.project,
        owner=like.owner,
        name="seeds",
        request=request,
        size=size,
        max_running=10,
    )
    ends = {0: JobStatus.SUCCEEDED, 1: JobStatus.FAILED}
    jobs = many_jobs(like, size, name="seeds", array_id=array.pk, array_cap=10)
    for index, job in enumerate(jobs):
        job.array_index, job.is_array_row = index, not index
        job.status = ends.get(index % 4, JobStatus.QUEUED)
        job.finished_at = job.started_at if index % 4 in ends else None
        job.save()
    return array


def client_of(who: str) -> Client:
    """A client that has just signed in with a password; signed out for ""."""
    client = Client()
    if who:
        client.force_login(User.objects.get(username=who))
        session = client.session
        session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
        session.save()
    return client
