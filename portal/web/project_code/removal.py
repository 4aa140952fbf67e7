"""A question before code of a project is removed, and its removal."""

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents.contract.file_transfer import TreeKind
from portal.files.models import Tree
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_access import project_or_404
from portal.web.tree_removal import tree_removal


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def remove(request: AuthenticatedHttpRequest, slug: str, tree: UUID) -> HttpResponse:
    """For who sent it, and admins of the project."""
    project = project_or_404(request.user, slug)
    code = Tree.objects.filter(project=project, kind=TreeKind.CODE).select_related("project")
    return tree_removal(
        request,
        get_object_or_404(code, pk=tree),
        template="web/project_code/removal.html",
        address=reverse("web:project_code", args=[project.slug]),
        context={"project": project},
    )
