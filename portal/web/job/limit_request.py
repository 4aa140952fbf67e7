"""Ask an admin for the limit that a job waits for, from the job's page."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from portal.errors import Refused
from portal.submission.limit_requests import limit_request_make
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job.access import visible_job_or_404
from portal.web.wording.messages import refusal_text


@login_required
@require_POST
def limit_request(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """One click; a note is welcome, not needed."""
    job = visible_job_or_404(request, ref)
    try:
        limit_request_make(job=job, actor=request.user, note=request.POST.get("note", ""))
    except Refused as refused:
        if refused.status == 403:
            raise PermissionDenied from refused
        messages.error(request, refusal_text(refused))
    else:
        messages.success(request, _("Request sent. The answer will appear on this page"))
    return HttpResponseRedirect(reverse("web:job", args=[job.label]))
