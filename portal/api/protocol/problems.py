"""Every refusal of REST as RFC 9457 problem+json: one handler, one shape, stable codes."""

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response

from portal.errors import Refused
from portal.request_id import request_id
from scheduler.core.request import RequestRefused

CONTENT_TYPE = "application/problem+json"
TITLES = {
    400: "The request is not right",
    401: "Sign in first",
    403: "Not allowed",
    404: "Not found",
    405: "This method is not offered here",
    409: "Conflict",
    410: "It is no longer kept",
    412: "It was changed meanwhile",
    413: "The body is too large",
    415: "Only JSON is read",
    422: "The request cannot be carried out",
    428: "Say which version you have seen",
    429: "Too many requests",
    500: "The portal failed to answer",
}


class BodyTooLarge(exceptions.APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"
    default_detail = "A body has at most 1 MiB"


class Malformed(exceptions.ParseError):
    default_code = "malformed"
    default_detail = "The body is not JSON"


class VersionMissing(exceptions.APIException):
    status_code = status.HTTP_428_PRECONDITION_REQUIRED
    default_code = "version_missing"
    default_detail = "Send If-Match with the ETag you have read, or If-None-Match: * for a new one"


class VersionStale(exceptions.APIException):
    """Both versions go with the refusal: the row as it is now, and what was sent for it."""

    status_code = status.HTTP_412_PRECONDITION_FAILED
    default_code = "version_stale"
    default_detail = "Somebody changed it since you read it. Read it again"

    def __init__(self, current: Any, etag: str, sent: Any, detail: str | None = None) -> None:
        super().__init__(detail)
        self.current, self.etag, self.sent = current, etag, sent


def handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's EXCEPTION_HANDLER. None, that is a server error, for what nobody foresaw."""
    # DRF's views read the settings, which name this module.
    from rest_framework.views import set_rollback  # noqa: PLC0415

    path = context["request"].path
    match error:
        case Refused():
            fields = _one(error.field, error.code, error.sentence)
            answer = _problem(error.status, error.code, error.sentence, path, fields)
            if error.retry_seconds:
                answer["Retry-After"] = str(error.retry_seconds)
        case RequestRefused():
            fields = [_field(e.field, e.code, e.sentence) for e in error.errors]
            answer = _problem(400, "request_invalid", _join(fields), path, fields)
        case exceptions.ValidationError():
            fields = list(_flat(error.get_full_details()))
            answer = _problem(400, "invalid", _join(fields), path, fields)
        case Http404():
            answer = _problem(404, "not_found", "There is no such thing here", path)
        case PermissionDenied():
            answer = _problem(403, "forbidden", str(error) or "You may not do this", path)
        case RequestDataTooBig():
            answer = _known(BodyTooLarge(), path)
        case exceptions.APIException():
            answer = _known(error, path)
        case _:
            return None
    set_rollback()
    return answer


def _known(error: exceptions.APIException, path: str) -> Response:
    code = str(getattr(error.detail, "code", error.default_code))
    code = {"permission_denied": "forbidden", "parse_error": "malformed"}.get(code, code)
    answer = _problem(error.status_code, code, str(error.detail), path)
    if challenge := getattr(error, "auth_header", None):
        answer["WWW-Authenticate"] = challenge
    if wait := getattr(error, "wait", None):
        answer["Retry-After"] = str(int(wait) + 1)
    if isinstance(error, VersionStale):
        answer.data |= {"current": error.current, "sent": error.sent}
        answer["ETag"] = error.etag
    return answer


def body_of(
    code: int, word: str, detail: str, path: str, fields: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    """A problem as it is sent, with the name under which the log has the request."""
    return {
        "type": f"urn:tessera:problem:{word}",
        "title": TITLES.get(code, "Refused"),
        "status": code,
        "detail": detail,
        "instance": path,
        "code": word,
        "errors": fields or [],
        "request_id": request_id(),
    }


def _problem(
    code: int, word: str, detail: str, path: str, fields: list[dict[str, str]] | None = None
) -> Response:
    body = body_of(code, word, detail, path, fields)
    return Response(body, status=code, content_type=CONTENT_TYPE)


def _one(field: str, code: str, message: str) -> list[dict[str, str]]:
    return [_field(field, code, message)] if field else []


def _field(field: str, code: str, message: str) -> dict[str, str]:
    return {"field": field, "code": str(code), "message": message}


def _join(fields: list[dict[str, str]]) -> str:
    return ". ".join(f"{f['field']}: {f['message']}" for f in fields)


def _flat(details: Any, field: str = "") -> Iterator[dict[str, str]]:
    """DRF's nested details as one list, with dotted field names."""
    if isinstance(details, list):
        for detail in details:
            yield from _flat(detail, field)
    elif isinstance(details, dict) and set(details) == {"message", "code"}:
        yield _field(field, details["code"], str(details["message"]))
    elif isinstance(details, dict):
        for name, detail in details.items():
            yield from _flat(detail, f"{field}.{name}" if field else str(name))
