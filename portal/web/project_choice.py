"""The project that Home and a new request are about. It is kept in the session; by default, all of
the user's projects are shown."""

from collections.abc import Collection

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from portal.accounts.models import Membership
from portal.web.http import AuthenticatedHttpRequest

SESSION_KEY = "project"


@login_required
@require_POST
def choose_project(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Keep the choice, and back to Home. What is not a project of the user means all of them."""
    slug = request.POST.get("project", "")
    if Membership.objects.filter(user=request.user, project__slug=slug).exists():
        request.session[SESSION_KEY] = slug
    else:
        request.session.pop(SESSION_KEY, None)
    return HttpResponseRedirect(reverse("web:home"))


def chosen_project(request: HttpRequest, projects: Collection[str]) -> str:
    """The slug of the chosen project, if it is still among `projects`; empty for all of them."""
    slug = request.session.get(SESSION_KEY, "")
    return slug if slug in projects else ""
