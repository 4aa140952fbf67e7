"""The job that an address names."""

from django.http import Http404

from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible
from portal.web.http import AuthenticatedHttpRequest


def visible_job_or_404(request: AuthenticatedHttpRequest, ref: str) -> Job:
    """A job that the user may not see gives the same 404 as one that does not exist."""
    try:
        return job_visible(request.user, ref)
    except Refused as refused:
        raise Http404 from refused
