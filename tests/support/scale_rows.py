"""A seeded cluster in the test's database, and the values for the addresses of its pages."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from django.test import Client

from portal.accounts.models import User
from portal.demo.scale import ClusterSize, seed_scale
from portal.jobs.models import Job, Replica
from scheduler.core.model.states import JobStatus

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


def seeded(size: ClusterSize, *, seed: int = 1, now: datetime = NOW, password: str = "") -> None:
    seed_scale(size, seed=seed, now=now, password=password)


def known() -> dict[str, str]:
    """A running job of alice, its node, the first project, and a job to approve."""
    alice = User.objects.get(username="alice")
    job = Job.objects.filter(owner=alice, status=JobStatus.RUNNING).latest("pk")
    asked = Job.objects.filter(status=JobStatus.AWAITING_APPROVAL).latest("pk")
    node = Replica.objects.filter(attempt__job=job).select_related("node").earliest("rank").node
    return {"job": job.label, "asked": asked.label, "project": "vision", "node": node.name}


def client_of(who: str) -> Client:
    """A client that has just signed in with a password; signed out for ""."""
    client = Client()
    if who:
        client.force_login(User.objects.get(username=who))
        session = client.session
        session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
        session.save()
    return client
