"""Unexpected errors: the page and the REST problem of a 500, with the request id of the log."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader

from portal.api.protocol.problems import CONTENT_TYPE, problem_body
from portal.error_codes import ErrorCode
from portal.request_id import request_id

API = "/api/"


def server_error(request: HttpRequest) -> HttpResponse:
    """`handler500`. Makes no database query: the database may be what failed."""
    if request.path_info.startswith(API):
        sentence = "An unexpected error occurred; the log has this request_id. Try again later"
        problem = problem_body(500, ErrorCode.SERVER_ERROR, sentence, request.path)
        return JsonResponse(problem, status=500, content_type=CONTENT_TYPE)
    page = loader.get_template("500.html").render({"request_id": request_id()})
    return HttpResponse(page, status=500)
