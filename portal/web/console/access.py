"""Who may open a console page."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, cast

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponseBase

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
