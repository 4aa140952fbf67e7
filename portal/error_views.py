"""What nobody foresaw: the page and the problem of a 500, with the name to look for in the log."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader

from portal.api.protocol.problems import CONTENT_TYPE, body_of
from portal.request_id import request_id

API = "/api/"


def failed(request: HttpRequest) -> HttpResponse:
    """`handler500`. Asks nothing of the database, which may be what failed."""
    if request.path_info.startswith(API):
        sentence = "The portal failed to answer. Its log has this request_id. Try again later"
        problem = body_of(500, "server_error", sentence, request.path)
        return JsonResponse(problem, status=500, content_type=CONTENT_TYPE)
    page = loader.get_template("500.html").render({"request_id": request_id()})
    return HttpResponse(page, status=500)
