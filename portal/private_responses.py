"""What a signed-in user was sent is kept by no cache, nor by the browser after they sign out."""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def private_response_middleware(get_response: Any) -> Sync | Async:
    """Sets Cache-Control where a view has not. Below the session's middleware."""

    async def async_middleware(request: HttpRequest) -> HttpResponseBase:
        return _private(request, await get_response(request))

    def sync_middleware(request: HttpRequest) -> HttpResponseBase:
        return _private(request, get_response(request))

    return async_middleware if iscoroutinefunction(get_response) else sync_middleware


def _private(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    has_caller = request.session.accessed or "Authorization" in request.headers
    if has_caller and not response.has_header("Cache-Control"):
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        # A list over REST may be asked for again with its ETag, so a client keeps it.
        kept = "no-store" if is_page else "no-cache"
        response.headers["Cache-Control"] = f"{kept}, private"
    return response
