"""Who asks: the signed-in person of a request behind `login_required`."""

from typing import cast

from django.http import HttpRequest

from portal.accounts.models import User


def person(request: HttpRequest) -> User:
    """Only for views that `login_required` guards."""
    return cast(User, request.user)
