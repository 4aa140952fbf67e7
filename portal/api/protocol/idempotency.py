"""A call with an Idempotency-Key runs once; sent again, it gets the first response."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.db import transaction
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from portal.api.protocol.requests import ApiRequest
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.idempotency.services import (
    KeyClaim,
    StoredResponse,
    call_digest,
    key_claim,
    key_release,
    response_store,
)

P = ParamSpec("P")
Handler = Callable[Concatenate[Any, ApiRequest, P], Response]
IdempotentHandler = Callable[Concatenate[Any, ApiRequest, P], HttpResponse]
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]([ -~]*[!-~])?$"},
    OpenApiParameter.HEADER,
    description="1 to 128 printable ASCII characters, kept for 24 hours. The same key and body get "
    "the first response again, or 409 with Retry-After while the first call is still running. The "
    "same key with another body gets 422",
)
REPLAYED = "Idempotency-Replayed"
# Responses that are stored. A dry run or a refusal created nothing and leaves the key free.
STORED_STATUSES = (201, 202)


def idempotent(handler: Handler[P]) -> IdempotentHandler[P]:
    """Decorator for a view's `post`. Not for a response with a secret: those are never stored.

    Raises Refused(idempotency_key_invalid, idempotency_mismatch, idempotency_running).
    """

    @wraps(handler)
    def post(view: Any, request: ApiRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        key = idempotency_key(request)
        if not key:
            return handler(view, request, *args, **kwargs)
        digest = call_digest(request.method, request.get_full_path(), request.data)
        claimed = key_claim(user=request.caller, key=key, request_digest=digest)
        if isinstance(claimed, StoredResponse):
            return _replayed(claimed)
        return _run(claimed, lambda: handler(view, request, *args, **kwargs))

    return post


def idempotency_key(request: ApiRequest) -> str:
    """The key, or "". Raises Refused(idempotency_key_invalid)."""
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > 128 or not (key.isascii() and key.isprintable()):
        sentence = "An Idempotency-Key must have 1 to 128 printable ASCII characters"
        raise Refused(ErrorCode.IDEMPOTENCY_KEY_INVALID, sentence, "Idempotency-Key")
    return key


def _run(claim: KeyClaim, handle: Callable[[], Response]) -> Response:
    """The call's rows and its stored response commit together, or not at all."""
    try:
        with transaction.atomic():
            response = handle()
            body = JSONRenderer().render(response.data).decode()
            if response.status_code in STORED_STATUSES:
                stored = StoredResponse(response.status_code, dict(response.headers), body)
                response_store(claim=claim, response=stored)
                return response
    except BaseException:
        key_release(claim=claim)
        raise
    key_release(claim=claim)
    return response


def _replayed(stored: StoredResponse) -> HttpResponse:
    headers = stored.headers | {"Content-Type": "application/json", REPLAYED: "true"}
    return HttpResponse(stored.body, status=stored.status, headers=headers)
