"""Requests of signed-in users, and refusals shown as messages."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib import messages
from django.http import HttpRequest

from portal.accounts.models import User
from portal.errors import Refused
from portal.web.wording.messages import refusal_text


class AuthenticatedHttpRequest(HttpRequest):
    """For views behind `login_required`; used as a type only."""

    user: User


@contextmanager
def refusals_as_messages(request: HttpRequest) -> Iterator[None]:
    """Turn a service's refusal into a message on the next page."""
    try:
        yield
    except Refused as refused:
        messages.error(request, refusal_text(refused))
