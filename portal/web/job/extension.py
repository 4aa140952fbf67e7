"""One more hour for a running job, from Home or the job's page."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from portal.accounts.models import User
from portal.errors import Refused
from portal.jobs.models import Job
from portal.submission.extensions import job_extend, may_extend
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job.access import visible_job_or_404
from portal.web.wording.messages import refusal_text

EXTENSION_SECONDS = 3_600


def can_extend(user: User, job: Job) -> bool:
    """Whether the user may add an hour, within the platform's longest time limit."""
    max_seconds = settings.PLATFORM.max_time_limit_seconds
    return may_extend(user, job) and job.time_limit_seconds + EXTENSION_SECONDS <= max_seconds


@login_required
@require_POST
def extend(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """Back on the page that posted, a message says that it worked or why not."""
    job = visible_job_or_404(request, ref)
    try:
        max_seconds = settings.PLATFORM.max_time_limit_seconds
        job_extend(job=job, actor=request.user, seconds=EXTENSION_SECONDS, max_seconds=max_seconds)
    except Refused as refused:
        messages.error(request, refusal_text(refused))
    else:
        messages.success(request, _("%(job)s has 1 h more") % {"job": job.name})
    is_home = request.POST.get("back") == "home"
    back = reverse("web:home") if is_home else reverse("web:job", args=[job.label])
    return HttpResponseRedirect(back)
