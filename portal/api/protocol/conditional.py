"""No list is sent twice: an ETag of the bytes, and 304 where the client has them."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.http import ConditionalGetMiddleware

PREFIX = "/api/v1/"


class ConditionalLists(ConditionalGetMiddleware):
    """Answers to GET under /api/v1/ get an ETag of their bytes, and 304 where the client has them.

    What has a version of its own (a node, a quota) is always sent: parts of it change without it.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        is_mine = request.path_info.startswith(PREFIX) and response.status_code == 200
        if not is_mine or response.streaming or response.has_header("ETag"):
            return response
        # If-Match on a GET has no meaning here, and must not give a page instead of a problem.
        request.META.pop("HTTP_IF_MATCH", None)
        answer: HttpResponseBase = super().process_response(request, response)
        return answer
