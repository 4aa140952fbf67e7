"""A question before the files of a tree are removed, and their removal."""

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from portal.errors import Refused
from portal.files.selectors import visible_tree
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job.access import visible_job_or_404
from portal.web.tree_removal import tree_removal


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
    if row.project_id != job.project_id:
        raise Http404
    return tree_removal(
        request,
        row,
        template="web/job/file_removal.html",
        address=reverse("web:job_files", args=[job.label]),
        context={"job": job},
    )
