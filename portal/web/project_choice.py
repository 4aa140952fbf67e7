"""The project that pages are about: chosen in the bar, kept in the session; by default, all.

The choice is a filter, never a right: each page reads what its user may see, and then less of it.
Lists keep their filter in their address, so that a link shows everybody the same; one that is
opened without any filter leads on to the chosen project's part of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import Resolver404, resolve, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from portal.accounts.models import Membership, User
from portal.accounts.selectors import WORKING_ROLES, memberships_of
from portal.web.http import AuthenticatedHttpRequest

SESSION_KEY = "project"
# They belong to one page of a list, whose rows are others for another project.
CURSORS = ("after", "before")


@dataclass(frozen=True, slots=True)
class ProjectFilter:
    """How the address of a page names a project: `parameter=prefix` and the project's slug."""

    parameter: str
    prefix: str = ""
    everything: str = ""
    """The value for all projects."""
    is_list: bool = True
    """Without the parameter, the page shows all projects."""

    def query(self, slug: str) -> tuple[str, str]:
        return self.parameter, self.prefix + slug if slug else self.everything

    def slug(self, value: str) -> str:
        """The project that the parameter's value names; empty for all projects."""
        is_project = value.startswith(self.prefix) and value != self.everything
        return value.removeprefix(self.prefix) if is_project else ""


FILTERS = {
    "web:jobs": ProjectFilter("project"),
    "web:queue": ProjectFilter("whose", "project-"),
    "web:usage": ProjectFilter("of", "project:", "me"),
    "web:limits": ProjectFilter("project"),
    "web:request": ProjectFilter("project", is_list=False),
    "web:advise": ProjectFilter("project", is_list=False),
}


@dataclass(frozen=True, slots=True)
class ProjectChoice:
    """The user's projects, and the one that they chose."""

    memberships: tuple[Membership, ...]
    chosen: str
    """Its slug; empty for all of them."""

    @property
    def projects(self) -> list[str]:
        """The chosen one, or all that are not archived."""
        open_projects = [m.project.slug for m in self.memberships if not m.project.archived]
        return [self.chosen] if self.chosen else open_projects

    @property
    def to_work_in(self) -> list[str]:
        """All in which the user may submit jobs."""
        return [
            each.project.slug
            for each in self.memberships
            if each.role in WORKING_ROLES and not each.project.archived
        ]


def own_choice(memberships: tuple[Membership, ...], slug: str) -> ProjectChoice:
    """A project that the user has left, or never was in, counts as all of theirs."""
    is_own = any(each.project.slug == slug for each in memberships)
    return ProjectChoice(memberships, slug if is_own else "")


def project_choice(request: HttpRequest) -> ProjectChoice:
    """That of the user. One query, the first time that it is asked of a request."""
    choice: ProjectChoice | None = getattr(request, "project_choice", None)
    if choice is None:
        memberships = memberships_of(request.user) if isinstance(request.user, User) else ()
        choice = own_choice(memberships, request.session.get(SESSION_KEY, ""))
        request.project_choice = choice  # type: ignore[attr-defined]
    return choice


def chosen_project(request: HttpRequest) -> str:
    """The slug of the chosen project; empty for all of them. No query where none was chosen."""
    return project_choice(request).chosen if request.session.get(SESSION_KEY) else ""


def shown_project(request: HttpRequest) -> str:
    """The project that this page is about: that of a list's address, else the chosen one."""
    match = request.resolver_match
    own = FILTERS.get(match.view_name) if match else None
    if own and (own.parameter in request.GET or (request.GET and own.is_list)):
        return own.slug(request.GET.get(own.parameter, ""))
    return chosen_project(request)


def page_address(route: str, slug: str) -> str:
    """The address of a page; of a list, the project's part of it."""
    own, address = FILTERS.get(route), reverse(route)
    return f"{address}?{urlencode([own.query(slug)])}" if own and slug else address


def follows_project_choice(
    view: Callable[[AuthenticatedHttpRequest], HttpResponse],
) -> Callable[[AuthenticatedHttpRequest], HttpResponse]:
    """For the view of a list, below the check of the sign-in."""

    @wraps(view)
    def followed(request: AuthenticatedHttpRequest) -> HttpResponse:
        match = request.resolver_match
        if match and not request.GET and (slug := chosen_project(request)):
            return HttpResponseRedirect(page_address(match.view_name, slug))
        return view(request)

    return followed


@login_required
@require_POST
def choose_project(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Keep the choice, and back to the page. What is not one of the user's projects means all."""
    slug = own_choice(memberships_of(request.user), request.POST.get("project", "")).chosen
    if slug:
        request.session[SESSION_KEY] = slug
    else:
        request.session.pop(SESSION_KEY, None)
    address = request.POST.get("next", "/")
    is_ours = url_has_allowed_host_and_scheme(address, {request.get_host()})
    return HttpResponseRedirect(_filtered(address if is_ours else "/", slug))


def _filtered(address: str, slug: str) -> str:
    """The first page of a list, filtered to the project and by its other filters as before; any
    other page as it is."""
    parts = urlsplit(address)
    try:
        own = FILTERS.get(resolve(parts.path).view_name)
    except Resolver404:
        return reverse("web:home")
    if own is None:
        return address
    kept = (pair for pair in parse_qsl(parts.query) if pair[0] not in (own.parameter, *CURSORS))
    return f"{parts.path}?{urlencode([own.query(slug), *kept])}"
