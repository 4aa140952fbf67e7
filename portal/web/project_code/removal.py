"""A question before code of a project is removed, and its removal."""

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents.contract.file_transfer import TreeKind
from portal.errors import Refused
from portal.files.models import Tree
from portal.files.removal import may_remove, tree_remove
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_access import project_or_404
from portal.web.wording.messages import refusal_text


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def remove(request: AuthenticatedHttpRequest, slug: str, tree: UUID) -> HttpResponse:
    """For who sent it, and admins of the project."""
    project = project_or_404(request.user, slug)
    code = Tree.objects.filter(project=project, kind=TreeKind.CODE)
    row = code.select_related("project").filter(pk=tree).first()
    if row is None or not may_remove(request.user, row):
        raise Http404
    notice, status = "", 200
    if request.method == "POST":
        try:
            tree_remove(tree=row, actor=request.user)
        except Refused as refused:
            notice, status = refusal_text(refused), refused.status
        else:
            messages.success(request, _("The files are removed"))
            return redirect("web:project_code", project.slug)
    address = reverse("web:project_code", args=[project.slug])
    context = {"project": project, "tree": row, "notice": notice, "address": address}
    return render(request, "web/project_code/removal.html", context, status=status)
