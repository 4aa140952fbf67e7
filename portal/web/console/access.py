"""Who gets in, and refusals as messages."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponseBase

from portal.accounts.models import Project, User
from portal.accounts.selectors import is_project_admin, projects_of
from portal.errors import Refused
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def platform_admins_only(view: View[P]) -> View[P]:
    """For everybody else there is no such page."""

    @login_required
    @wraps(view)
    def guarded(
        request: AuthenticatedHttpRequest, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        if not request.user.is_platform_admin:
            raise Http404
        return view(request, *args, **kwargs)

    return guarded


def project_or_404(user: User, slug: str) -> Project:
    """A project that the user is in. Foreign and unknown read the same."""
    row = projects_of(user).filter(slug=slug).first()
    if row is None:
        raise Http404
    return row


def administered_project_or_404(user: User, slug: str) -> Project:
    """A project that the user runs; for its other people there is no such page."""
    row = project_or_404(user, slug)
    if not is_project_admin(user, row.pk):
        raise Http404
    return row


@contextmanager
def refusals_as_messages(request: HttpRequest) -> Iterator[None]:
    """Show what a service refuses in the page that follows."""
    try:
        yield
    except Refused as refused:
        messages.error(request, refusal_text(refused))
