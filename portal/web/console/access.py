"""Who may open a console page."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, cast

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponseBase

from portal.accounts.models import Project, User
from portal.accounts.selectors import is_project_admin, projects_of
from portal.web.http import AuthenticatedHttpRequest

P = ParamSpec("P")
View = Callable[Concatenate[AuthenticatedHttpRequest, P], HttpResponseBase]


def platform_admins_only(view: View[P]) -> View[P]:
    """Answer everyone but platform admins with 404."""

    @wraps(view)
    def guarded(
        request: AuthenticatedHttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        if not request.user.is_platform_admin:
            raise Http404
        return view(request, *args, **kwargs)

    return cast("View[P]", login_required(guarded))


def project_or_404(user: User, slug: str) -> Project:
    """A project that the user may see; 404 does not tell a foreign project from an unknown one."""
    row = projects_of(user).filter(slug=slug).first()
    if row is None:
        raise Http404
    return row


def administered_project_or_404(user: User, slug: str) -> Project:
    """A project that the user administers; 404 for its other members."""
    row = project_or_404(user, slug)
    if not is_project_admin(user, row.pk):
        raise Http404
    return row
