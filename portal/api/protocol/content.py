"""JSON in, JSON out: a parser with a size limit, and no other media types."""

import json
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.request import Request

from portal.api.protocol.problems import BodyTooLarge, MalformedBody


class BoundedJSONParser(JSONParser):
    """JSON up to DATA_UPLOAD_MAX_MEMORY_SIZE, a limit that DRF's own parser ignores."""

    # Of a view that takes more.
    max_bytes = 0

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit: int = self.max_bytes or settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        request: Request = (parser_context or {})["request"]
        if int(request.META.get("CONTENT_LENGTH") or 0) > limit:
            raise BodyTooLarge
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise BodyTooLarge
        try:
            body = json.loads(raw.decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise MalformedBody from error
        _require_storable(body)
        return body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _require_storable(body: Any) -> None:
    """Refuse U+0000 and unpaired surrogates at any depth: no database stores them."""
    todo = [body]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo += [*value, *value.values()]
        elif isinstance(value, list):
            todo += value
        elif isinstance(value, str) and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
            raise MalformedBody("A string contains U+0000 or an unpaired surrogate")


class JSONOnly(BaseContentNegotiation):
    """Responses are JSON (logs are text), whatever the Accept header says."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        media_type = (request.content_type or "").partition(";")[0].strip().lower()
        return next((p for p in parsers if p.media_type == media_type), None)

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type
