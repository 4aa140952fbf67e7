"""The id of a request: in its response, in every problem document and in the lines of the log.

An `X-Request-Id` from a proxy is kept if it matches PLAIN; otherwise the portal makes one.
"""

import re
import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from inspect import iscoroutinefunction
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

HEADER = "X-Request-Id"
PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}")
NONE = "-"
_now: ContextVar[str] = ContextVar("request_id", default=NONE)

Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


def request_id() -> str:
    """The id of the current request; "-" outside one."""
    return _now.get()


def audited_request_id() -> str:
    """The same for a column of a row; empty outside a request."""
    return "" if request_id() == NONE else request_id()


@sync_and_async_middleware
def request_id_middleware(get_response: Any) -> Sync | Async:
    """Middleware. It must be the outermost, so that what the others log has the id."""

    async def async_middleware(request: HttpRequest) -> HttpResponseBase:
        # Not reset: a streamed response continues in this request's own task.
        _now.set(_assign_id(request))
        return _with_header(request, await get_response(request))

    def sync_middleware(request: HttpRequest) -> HttpResponseBase:
        before = _now.set(_assign_id(request))
        try:
            return _with_header(request, get_response(request))
        finally:
            _now.reset(before)

    return async_middleware if iscoroutinefunction(get_response) else sync_middleware


def set_request_id(sent: str) -> None:
    """For a call that does not pass the middleware; `sent`: its header, or ""."""
    _now.set(_kept_or_new(sent))


def continue_request(sent: object) -> Token[str]:
    """For work that a request has started elsewhere; `sent`: what came with it, from wherever."""
    is_plain = isinstance(sent, str) and PLAIN.fullmatch(sent)
    return _now.set(str(sent) if is_plain else NONE)


def end_request(token: Token[str]) -> None:
    _now.reset(token)


def _assign_id(request: HttpRequest) -> str:
    value = _kept_or_new(request.headers.get(HEADER, ""))
    request.request_id = value  # type: ignore[attr-defined]
    return value


def _kept_or_new(sent: str) -> str:
    return sent if PLAIN.fullmatch(sent) else uuid.uuid4().hex


def _with_header(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    response.headers[HEADER] = request.request_id  # type: ignore[attr-defined]
    return response
