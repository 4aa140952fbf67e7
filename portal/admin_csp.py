"""A looser Content-Security-Policy under /admin/, which Unfold's scripts and styles need."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

# Alpine evaluates expressions in attributes, and Unfold sets style attributes.
ADMIN_DIRECTIVES = {
    "script-src": ["'self'", "'unsafe-eval'"],
    "style-src": ["'self'", "'unsafe-inline'"],
}


class AdminCSPMiddleware:
    """Must come after CSPMiddleware, which writes the header from the response's attribute."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.path_info.startswith(reverse("admin:index")):
            response._csp_replace = ADMIN_DIRECTIVES  # type: ignore[attr-defined]  # read by django-csp
        return response
