"""How long pages and REST take, by name of the route, and a line of the log for each: a middleware,
inside that of request ids."""

import logging
import time
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from portal.metrics import REQUEST_SECONDS
from portal.request_id import PLAIN

Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]
log = logging.getLogger("portal.requests")
MAX_PATH = 200
STATIC, UNKNOWN = "static", "unknown"
# Anybody may send another method, with any name.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@sync_and_async_middleware
def request_metrics_middleware(get_response: Any) -> Sync | Async:
    async def async_middleware(request: HttpRequest) -> HttpResponseBase:
        begun = time.perf_counter()
        response: HttpResponseBase = await get_response(request)
        _observe(request, response, begun)
        return response

    def sync_middleware(request: HttpRequest) -> HttpResponseBase:
        begun = time.perf_counter()
        response: HttpResponseBase = get_response(request)
        _observe(request, response, begun)
        return response

    return async_middleware if iscoroutinefunction(get_response) else sync_middleware


def route_name(request: HttpRequest) -> str:
    """One of the names in the URL map; never a part of the path."""
    match = request.resolver_match
    if match is not None:
        return match.view_name
    static = "/" + settings.STATIC_URL.strip("/") + "/"
    return STATIC if request.path.startswith(static) else UNKNOWN


def _observe(request: HttpRequest, response: HttpResponseBase, begun: float) -> None:
    seconds = time.perf_counter() - begun
    method = str(request.method if request.method in METHODS else "other")
    route, status = route_name(request), response.status_code
    REQUEST_SECONDS.labels(method, route, str(status)).observe(seconds)
    if route == STATIC:
        return
    fields: dict[str, Any] = {
        "route": route,
        "status": status,
        "ms": round(seconds * 1_000, 1),
        # Without what is after it: a query may carry the code of a sign-in.
        "path": request.path[:MAX_PATH],
        **_nouns(request),
    }
    if request_id := getattr(request, "request_id", ""):
        fields["request_id"] = request_id
    if user := _user(request):
        fields["user"] = user
    log.info("%s %s %d", method, route, status, extra=fields)


def _nouns(request: HttpRequest) -> dict[str, str]:
    """The job and the node that the address names."""
    match = request.resolver_match
    if match is None:
        return {}
    named = {"job": match.kwargs.get("job"), "node": match.kwargs.get("node")}
    if match.route.startswith("jobs/"):
        named["job"] = match.kwargs.get("ref")
    return {noun: name for noun, name in named.items() if name and PLAIN.fullmatch(str(name))}


def _user(request: HttpRequest) -> str:
    """The id of the user, if the request has found out; this asks the database nothing."""
    user = getattr(request, "_cached_user", None) or getattr(request, "_acached_user", None)
    if user is None and isinstance(request.__dict__.get("user"), AbstractBaseUser):
        # Of an API token.
        user = request.__dict__["user"]
    return str(user.pk) if user is not None and user.pk else ""
