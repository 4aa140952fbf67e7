"""The code of a project: which is there, where it is from, which jobs have it, and until when."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.files.code_list import project_code, project_commits, stored_code
from portal.files.limits import stored_limits
from portal.files.removal import removable_code
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_access import project_or_404

# The newest; REST has all.
MAX_TREES = 100


@login_required
@require_safe
def project_code_page(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    """For everybody in the project."""
    project = project_or_404(request.user, slug)
    limits = stored_limits(project.pk)
    trees = list(project_code(project)[: MAX_TREES + 1])
    context = {
        "project": project,
        "stored": stored_code(trees[:MAX_TREES], limits),
        "removable": removable_code(request.user, project.pk, trees),
        "is_cut": len(trees) > MAX_TREES,
        "commits": project_commits(project),
        "kept_days": limits.kept_days,
    }
    return render(request, "web/project_code/list.html", context)
