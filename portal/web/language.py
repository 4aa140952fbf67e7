"""The language of the pages, remembered in a cookie and in the account."""

from typing import TypeVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import check_for_language
from django.views.decorators.http import require_POST

from portal.accounts.models import User
from portal.accounts.profiles import user_language_set

ResponseT = TypeVar("ResponseT", bound=HttpResponse)


@require_POST
def set_language(request: HttpRequest) -> HttpResponse:
    """Remember the language and redirect to the page named by `next`."""
    code, address = request.POST.get("language", ""), request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(address, {request.get_host()}):
        address = "/"
    response = remember_language(HttpResponseRedirect(address), code)
    if isinstance(request.user, User) and _is_supported(code):
        user_language_set(user=request.user, language=code)
    return response


def remember_language(response: ResponseT, code: str) -> ResponseT:
    """Set the cookie; an unsupported language changes nothing."""
    if _is_supported(code):
        response.set_cookie(settings.LANGUAGE_COOKIE_NAME, code, samesite="Lax", httponly=True)
    return response


def _is_supported(code: str) -> bool:
    return code in dict(settings.LANGUAGES) and check_for_language(code)
