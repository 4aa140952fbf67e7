"""Failed jobs of the last days by cause: what many users run into, an admin may mend for all."""

from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from portal.jobs.failure_counts import failures_by_cause
from portal.jobs.models import Job
from portal.web.wording.failures import cause_label

DAYS = 7


@dataclass(frozen=True, slots=True)
class FailureGroup:
    label: str
    count: int
    address: str
    """The list of these jobs."""


def recent_failures() -> list[FailureGroup]:
    """Of jobs submitted in the last DAYS days, the most frequent first. One query."""
    since = timezone.localdate() - timedelta(days=DAYS - 1)
    begin = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    jobs = Job.objects.filter(submitted_at__gte=begin - timedelta(days=DAYS - 1))
    return [
        FailureGroup(cause_label(row.cause), row.count, _address(row.cause, since.isoformat()))
        for row in failures_by_cause(jobs)
    ]


def _address(cause: str, since: str) -> str:
    return f"{reverse('web:jobs')}?{urlencode({'cause': cause, 'submitted_after': since})}"
