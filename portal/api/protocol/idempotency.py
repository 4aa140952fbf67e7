"""A call with an Idempotency-Key is carried out once; sent again, it gets the first answer."""

import hashlib
import json
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.protocol.authentication import caller
from portal.errors import Refused
from portal.idempotency.services import Claim, Kept, answer_keep, key_claim, key_release

P = ParamSpec("P")
Made = Callable[Concatenate[Any, Request, P], Response]
Answered = Callable[Concatenate[Any, Request, P], HttpResponse]
KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]([ -~]*[!-~])?$"},
    OpenApiParameter.HEADER,
    description="1 to 128 printable characters, kept 24 hours. The same key and body get the first "
    "answer again, and 409 with Retry-After while that is being made; with another body 422",
)
REPLAYED = "Idempotency-Replayed"
# What is kept: answers that say something was made. A dry run or a refusal made nothing, and leaves
# the key free.
KEPT = (201, 202)


def once(make: Made[P]) -> Answered[P]:
    """For a view's `post`. Not where the answer holds a secret: that is shown once, stored nowhere.

    Raises Refused(idempotency_key_invalid, idempotency_mismatch, idempotency_running).
    """

    @wraps(make)
    def post(view: Any, request: Request, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        key = idempotency_key(request)
        if not key:
            return make(view, request, *args, **kwargs)
        claimed = key_claim(user=caller(request), key=key, asked=_digest(request))
        if isinstance(claimed, Kept):
            return _replayed(claimed)
        return _carried_out(claimed, lambda: make(view, request, *args, **kwargs))

    return post


def idempotency_key(request: Request) -> str:
    """The key, or "". Raises Refused(idempotency_key_invalid)."""
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > 128 or not (key.isascii() and key.isprintable()):
        sentence = "An Idempotency-Key has 1 to 128 printable ASCII characters"
        raise Refused("idempotency_key_invalid", sentence, "Idempotency-Key")
    return key


def _digest(request: Request) -> str:
    asked = [request.method, request.get_full_path(), request.data]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _carried_out(claim: Claim, make: Callable[[], Response]) -> Response:
    try:
        answer = make()
        body = JSONRenderer().render(answer.data).decode()
    except BaseException:
        key_release(claim=claim)
        raise
    if answer.status_code in KEPT:
        answer_keep(claim=claim, kept=Kept(answer.status_code, dict(answer.headers), body))
    else:
        key_release(claim=claim)
    return answer


def _replayed(kept: Kept) -> HttpResponse:
    headers = kept.headers | {"Content-Type": "application/json", REPLAYED: "true"}
    return HttpResponse(kept.body, status=kept.status, headers=headers)
