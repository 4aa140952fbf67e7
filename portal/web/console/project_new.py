"""A new project, with its creator as its first admin if they want to be."""

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from portal.accounts.models import Role
from portal.accounts.services import membership_set
from portal.errors import Refused
from portal.quotas.projects import project_create
from portal.web.console.access import platform_admins_only
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: AuthenticatedHttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _page(request, joins=True)
    slug = request.POST.get("slug", "").strip().lower()
    name = request.POST.get("name", "").strip()
    joins = request.POST.get("joins") == "on"
    actor = request.user.username
    try:
        with transaction.atomic():
            project = project_create(slug=slug, name=name, actor=actor)
            if joins:
                membership_set(project=project, user=request.user, role=Role.ADMIN, actor=actor)
    except Refused as refused:
        errors = {refused.field or "slug": refusal_text(refused)}
        return _page(request, slug, name, joins=joins, errors=errors, status=refused.status)
    messages.success(request, _("%(project)s is created") % {"project": project.slug})
    return redirect("web:project", project.slug)


def _page(
    request: AuthenticatedHttpRequest,
    slug: str = "",
    name: str = "",
    *,
    joins: bool,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {
        "slug": slug,
        "name": name,
        "joins": joins,
        "errors": errors or {},
        "limit_units": settings.PLATFORM.default_quota_units,
    }
    return render(request, "web/console/project_new.html", context, status=status)
