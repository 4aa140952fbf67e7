"""Jobs that ended before a test begins; estimates need them."""

from copy import copy
from datetime import timedelta
from uuid import uuid4

from django.utils import timezone

from portal.jobs.models import Job
from scheduler.core.forecast.starts import MIN_ENDED_RUNS
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job


def ended_jobs(user, home, count=MIN_ENDED_RUNS):
    """Jobs that took half of their time limits and ended one after another, the last a day ago."""
    first = a_job(user, home, name="earlier", time_limit="2h")
    rows = [first] + [copy(first) for _ in range(count - 1)]
    for number, row in enumerate(rows):
        end = timezone.now() - timedelta(days=1, hours=number)
        row.status, row.reason = JobStatus.SUCCEEDED, None
        row.submitted_at = row.queued_at = row.started_at = end - timedelta(hours=1)
        row.finished_at = end
        if number:
            row.pk, row.uid = None, uuid4()
            row._state.adding = True
    first.save()
    return [first, *Job.objects.bulk_create(rows[1:])]
