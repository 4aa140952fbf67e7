"""More time for a running job, from the page where its end is seen."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from portal.accounts.models import User
from portal.errors import Refused
from portal.jobs.extensions import job_extend, may_extend
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text

EXTENSION_SECONDS = 3_600


def can_extend(user: User, job: Job) -> bool:
    """Whether an hour more is within the platform's limit, and is theirs to take."""
    longest = settings.PLATFORM.max_time_limit_seconds
    return may_extend(user, job) and job.time_limit_seconds + EXTENSION_SECONDS <= longest


@login_required
@require_POST
def extend(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """One hour more; what stands in the way is said on the page that asked."""
    user = request.user
    try:
        job = job_visible(user, ref)
    except Refused as refused:
        raise Http404 from refused
    try:
        most = settings.PLATFORM.max_time_limit_seconds
        job_extend(job=job, actor=user, seconds=EXTENSION_SECONDS, max_seconds=most)
    except Refused as refused:
        messages.error(request, refusal_text(refused))
    else:
        messages.success(request, _("%(job)s has 1 h more") % {"job": job.name})
    is_home = request.POST.get("back") == "home"
    back = reverse("web:home") if is_home else reverse("web:job", args=[job.label])
    return HttpResponseRedirect(back)
