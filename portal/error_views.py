"""Unexpected errors: the page and the REST problem of a 500, with the request id of the log; of a
503 while the database is away."""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader

from portal.api.protocol.problems import CONTENT_TYPE, problem_body
from portal.error_codes import ErrorCode
from portal.request_id import request_id

API = "/api/"
RETRY_SECONDS = 5
SENTENCES = {
    ErrorCode.SERVER_ERROR: "An unexpected error occurred; the log has this request_id. Try again "
    "later",
    ErrorCode.DATABASE_UNAVAILABLE: "The portal's database does not respond. Running jobs go on. "
    "Try again in a few seconds",
}


def server_error(request: HttpRequest) -> HttpResponse:
    """`handler500`, for the exception that is being handled. Makes no database query: the database
    may be what failed."""
    if isinstance(sys.exception(), OperationalError | InterfaceError):
        response = _response(request, 503, ErrorCode.DATABASE_UNAVAILABLE, "503.html")
        response["Retry-After"] = str(RETRY_SECONDS)
        return response
    return _response(request, 500, ErrorCode.SERVER_ERROR, "500.html")


def _response(request: HttpRequest, status: int, code: ErrorCode, template: str) -> HttpResponse:
    if request.path_info.startswith(API):
        problem = problem_body(status, code, SENTENCES[code], request.path)
        return JsonResponse(problem, status=status, content_type=CONTENT_TYPE)
    page = loader.get_template(template).render({"request_id": request_id()})
    return HttpResponse(page, status=status)
