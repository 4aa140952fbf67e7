"""Signing in, and the language of the pages."""

from django.conf import settings
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import check_for_language
from django.views.decorators.http import require_POST


class SignIn(LoginView):
    template_name = "web/sign_in.html"
    redirect_authenticated_user = True


@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """Remember the language in a cookie and go back to the page one came from."""
    wanted, back = request.POST.get("language", ""), request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}):
        back = "/"
    answer = HttpResponseRedirect(back)
    if check_for_language(wanted):
        answer.set_cookie(settings.LANGUAGE_COOKIE_NAME, wanted, samesite="Lax", httponly=True)
    return answer
