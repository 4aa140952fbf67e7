"""Every refusal of REST as RFC 9457 problem+json: one handler, one format, stable codes."""

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response

from portal.error_codes import ERROR_KINDS, ErrorCode
from portal.errors import Refused
from portal.request_id import request_id
from portal.submission.services import BulkRefusedError
from scheduler.core.request import FieldError, InvalidRequest

CONTENT_TYPE = "application/problem+json"
# Codes of the REST framework that have another name here.
_DRF_CODES = {
    "permission_denied": ErrorCode.FORBIDDEN,
    "parse_error": ErrorCode.MALFORMED,
}


class BodyTooLarge(exceptions.APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = ErrorCode.TOO_LARGE
    default_detail = "A request body may have at most 1 MiB"


class MalformedBody(exceptions.ParseError):
    default_code = ErrorCode.MALFORMED
    default_detail = "The request body is not valid JSON"


class VersionMissing(exceptions.APIException):
    status_code = status.HTTP_428_PRECONDITION_REQUIRED
    default_code = ErrorCode.VERSION_MISSING
    default_detail = (
        "Send If-Match with the ETag that you read, or If-None-Match: * to create a new one"
    )


class VersionStale(exceptions.APIException):
    """The refusal carries both versions: the row as it is now (`current`) and the change `sent`."""

    status_code = status.HTTP_412_PRECONDITION_FAILED
    default_code = ErrorCode.VERSION_STALE
    default_detail = "It has changed since you read it. Read it again"

    def __init__(self, current: Any, etag: str, sent: Any, detail: str | None = None) -> None:
        super().__init__(detail)
        self.current, self.etag, self.sent = current, etag, sent


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's EXCEPTION_HANDLER. None, which is a server error, for an unexpected exception."""
    # Imported late: DRF's views read the settings, which name this module.
    from rest_framework.views import set_rollback  # noqa: PLC0415

    path = context["request"].path
    match error:
        case Refused():
            fields = _field_list(error.field, error.code, error.sentence)
            response = _problem(error.status, error.code, error.sentence, path, fields)
            if error.retry_seconds:
                response["Retry-After"] = str(error.retry_seconds)
        case InvalidRequest():
            fields = [request_field(each) for each in error.errors]
            response = _problem(400, ErrorCode.REQUEST_INVALID, _join(fields), path, fields)
        case BulkRefusedError():
            fields = list(_bulk_fields(error))
            response = _problem(400, ErrorCode.BULK_REFUSED, _bulk_detail(error), path, fields)
        case exceptions.ValidationError():
            fields = list(_flat(error.get_full_details()))
            response = _problem(400, ErrorCode.INVALID, _join(fields), path, fields)
        case Http404():
            response = _problem(404, ErrorCode.NOT_FOUND, "There is no such resource", path)
        case PermissionDenied():
            detail = str(error) or "You are not allowed to do this"
            response = _problem(403, ErrorCode.FORBIDDEN, detail, path)
        case RequestDataTooBig():
            response = _from_api_exception(BodyTooLarge(), path)
        case exceptions.APIException():
            response = _from_api_exception(error, path)
        case _:
            return None
    set_rollback()
    return response


def _from_api_exception(error: exceptions.APIException, path: str) -> Response:
    code = str(getattr(error.detail, "code", error.default_code))
    code = _DRF_CODES.get(code, code)
    response = _problem(error.status_code, code, str(error.detail), path)
    if challenge := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = challenge
    if wait := getattr(error, "wait", None):
        response["Retry-After"] = str(int(wait) + 1)
    if isinstance(error, VersionStale):
        response.data |= {"current": error.current, "sent": error.sent}
        response["ETag"] = error.etag
    return response


def problem_body(
    status_code: int, code: str, detail: str, path: str, fields: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """A problem as it is sent, with the request id that the log lines carry."""
    return {
        "type": f"urn:tessera:problem:{code}",
        "title": ERROR_KINDS[ErrorCode(code)].title if code in ERROR_KINDS else "Refused",
        "status": status_code,
        "detail": detail,
        "instance": path,
        "code": code,
        "errors": fields or [],
        "request_id": request_id(),
    }


def _problem(
    status_code: int, code: str, detail: str, path: str, fields: list[dict[str, Any]] | None = None
) -> Response:
    body = problem_body(status_code, code, detail, path, fields)
    return Response(body, status=status_code, content_type=CONTENT_TYPE)


def _field_list(field: str, code: str, message: str) -> list[dict[str, Any]]:
    return [_field(field, code, message)] if field else []


def _field(field: str, code: str, message: str) -> dict[str, Any]:
    return {"field": field, "code": str(code), "message": message}


def request_field(error: FieldError) -> dict[str, Any]:
    """A problem of a job request, with what mends it and the combination that it is."""
    told = _field(error.field, error.code, error.sentence)
    if error.combination:
        told["combination"] = error.combination
    if error.suggestion:
        told["suggestion"] = dict(error.suggestion)
    return told


def _bulk_fields(error: BulkRefusedError) -> Iterator[dict[str, Any]]:
    """The problems of each refused request, with its index: `jobs.3.device`."""
    for index, problem in error.problems.items():
        if isinstance(problem, Refused):
            field = f"jobs.{index}.{problem.field}".rstrip(".")
            yield _field(field, problem.code, problem.sentence)
        else:
            for each in problem.errors:
                field = f"jobs.{index}.{each.field}".rstrip(".")
                yield request_field(each) | {"field": field}


def _bulk_detail(error: BulkRefusedError) -> str:
    refused = len(error.problems)
    return f"{refused} of {error.total} requests are refused, so none was submitted"


def _join(fields: list[dict[str, Any]]) -> str:
    return ". ".join(f"{f['field']}: {f['message']}" for f in fields)


def _flat(details: Any, field: str = "") -> Iterator[dict[str, Any]]:
    """DRF's nested details as a flat list, with dotted field names."""
    if isinstance(details, list):
        for detail in details:
            yield from _flat(detail, field)
    elif isinstance(details, dict) and set(details) == {"message", "code"}:
        yield _field(field, details["code"], str(details["message"]))
    elif isinstance(details, dict):
        for name, detail in details.items():
            yield from _flat(detail, f"{field}.{name}" if field else str(name))
