"""One name for each request: in its answer, in every problem, in the lines of the log.

A proxy that names requests is believed where its name is plain; else the portal makes one.
"""

import logging
import re
import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
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
    """Of the request that is being answered here; "-" where there is none."""
    return _now.get()


@sync_and_async_middleware
def request_id_middleware(answer: Any) -> Sync | Async:
    """Middleware, the outermost: what all others log has the name."""

    async def in_turn(request: HttpRequest) -> HttpResponseBase:
        # Not taken back: what streams afterwards goes on in this request's own task.
        _now.set(_named(request))
        return _signed(request, await answer(request))

    def at_once(request: HttpRequest) -> HttpResponseBase:
        before = _now.set(_named(request))
        try:
            return _signed(request, answer(request))
        finally:
            _now.reset(before)

    return in_turn if iscoroutinefunction(answer) else at_once


class RequestIdFilter(logging.Filter):
    """Gives every line of the log the name of its request."""

    def filter(self, record: logging.LogRecord) -> bool:
        asked = getattr(record, "request", None)
        record.request_id = getattr(asked, "request_id", None) or request_id()
        return True


def _named(request: HttpRequest) -> str:
    told = request.headers.get(HEADER, "")
    name = told if PLAIN.fullmatch(told) else uuid.uuid4().hex
    request.request_id = name  # type: ignore[attr-defined]
    return name


def _signed(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    response.headers[HEADER] = request.request_id  # type: ignore[attr-defined]
    return response
