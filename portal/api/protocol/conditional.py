"""Conditional GET for lists: an ETag of the bytes, and 304 if the client has them."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.http import ConditionalGetMiddleware

PREFIX = "/api/v1/"


class ConditionalLists(ConditionalGetMiddleware):
    """Adds an ETag of the bytes to GET responses under /api/v1/, and answers 304 if it matches.

    A resource with its own version (a node, a quota) is always sent: parts of it change without a
    new version.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        is_rest = request.path_info.startswith(PREFIX) and response.status_code == 200
        if not is_rest or response.streaming or response.has_header("ETag"):
            return response
        # If-Match has no meaning on these GETs, and Django would answer it with an HTML 412.
        request.META.pop("HTTP_IF_MATCH", None)
        conditional: HttpResponseBase = super().process_response(request, response)
        return conditional
