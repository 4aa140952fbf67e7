"""Requests of jobs that have devices, read once: each document of a node names all of its jobs."""

from typing import Any
from uuid import UUID

from portal.jobs.models import Job
from portal.recent_values import RecentValues
from scheduler.core.request import JobRequest, parse_stored_request

# By the job's uid: the stored request, and what was read of it. Some 5 KB each.
_kept: RecentValues[UUID, tuple[Any, JobRequest]] = RecentValues(5_000)


def request_of(job: Job) -> JobRequest:
    """As `parse_stored_request` reads it. One that was changed by hand is read anew."""
    kept = _kept.get(job.uid)
    if kept and kept[0] == job.request:
        return kept[1]
    request = parse_stored_request(job.request)
    _kept.keep(job.uid, (job.request, request))
    return request
