"""A question before the files of a tree are removed, and their removal."""

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from portal.errors import Refused
from portal.files.removal import may_remove, tree_remove
from portal.files.selectors import visible_tree
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job.access import visible_job_or_404
from portal.web.wording.messages import refusal_text


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def remove(request: AuthenticatedHttpRequest, ref: str, tree: UUID) -> HttpResponse:
    """`ref`: the job from whose page the reader came; others may have the same code."""
    job = visible_job_or_404(request, ref)
    try:
        row = visible_tree(request.user, tree)
    except Refused as refused:
        raise Http404 from refused
    if row.project_id != job.project_id or not may_remove(request.user, row):
        raise Http404
    notice, status = "", 200
    if request.method == "POST":
        try:
            tree_remove(tree=row, actor=request.user)
        except Refused as refused:
            notice, status = refusal_text(refused), refused.status
        else:
            messages.success(request, _("The files are removed"))
            return redirect("web:job_files", job.label)
    address = reverse("web:job_files", args=[job.label])
    context = {"job": job, "tree": row, "notice": notice, "address": address}
    return render(request, "web/job/file_removal.html", context, status=status)
