"""The language of the pages: remembered in a cookie, and with the account."""

from typing import TypeVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import check_for_language
from django.views.decorators.http import require_POST

from portal.accounts.models import User
from portal.accounts.profiles import user_language

Answer = TypeVar("Answer", bound=HttpResponse)


@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """Remember the language and go back to the page one came from."""
    wanted, back = request.POST.get("language", ""), request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}):
        back = "/"
    answer = remember_language(HttpResponseRedirect(back), wanted)
    if isinstance(request.user, User) and _is_known(wanted):
        user_language(user=request.user, language=wanted)
    return answer


def remember_language(answer: Answer, wanted: str) -> Answer:
    """Set the cookie; a language that we do not have changes nothing."""
    if _is_known(wanted):
        answer.set_cookie(settings.LANGUAGE_COOKIE_NAME, wanted, samesite="Lax", httponly=True)
    return answer


def _is_known(wanted: str) -> bool:
    return wanted in dict(settings.LANGUAGES) and check_for_language(wanted)
