"""Many waiting jobs, made as copies of one that was submitted normally."""

from __future__ import annotations

from django.utils import timezone

from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus

OWN = ("id", "uid", "name", "position")
WAITS = {"code": "resources", "class": "wait", "sentence": "All is taken", "evidence": {}}


def many_jobs(like: Job, count: int, *, first: int = 1, **columns: object) -> list[Job]:
    """`count` queued copies of a job, from position `first`; `columns` are set on each."""
    fields = {
        field.attname: getattr(like, field.attname)
        for field in Job._meta.concrete_fields
        if field.name not in OWN
    }
    fields |= {"status": JobStatus.QUEUED, "queued_at": timezone.now(), "reason": WAITS} | columns
    rows = []
    for number in range(count):
        name = f"job-{number:05}"
        own = {"name": name, "position": first + number} | fields
        rows.append(Job(**(own | {"request": dict(like.request, name=own["name"])})))
    return Job.objects.bulk_create(rows, batch_size=500)
