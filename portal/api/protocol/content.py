"""How bytes come in and pages go out: bounded JSON, JSON only, cursors."""

import json
import re
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import NotFound
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.parsers import JSONParser
from rest_framework.request import Request

from portal.api.protocol.problems import BodyTooLarge, Malformed

POSITION = re.compile(r"[0-9]{1,18}")
# The longest name that lists are ordered by.
MOST_NAME = 64


class BoundedJSONParser(JSONParser):
    """JSON up to DATA_UPLOAD_MAX_MEMORY_SIZE, which DRF's own parser does not look at."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        request: Request = (parser_context or {})["request"]
        if int(request.META.get("CONTENT_LENGTH") or 0) > limit:
            raise BodyTooLarge
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise BodyTooLarge
        try:
            body = json.loads(raw.decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError) as wrong:
            raise Malformed from wrong
        _require_storable(body)
        return body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _require_storable(body: Any) -> None:
    """No database keeps U+0000 or half a surrogate pair; refuse them wherever they hide."""
    todo = [body]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo += [*value, *value.values()]
        elif isinstance(value, list):
            todo += value
        elif isinstance(value, str) and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
            raise Malformed("A text holds U+0000 or half of a surrogate pair")


class JSONOnly(BaseContentNegotiation):
    """Answers are JSON (logs are text) whatever Accept says."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        wanted = (request.content_type or "").partition(";")[0].strip().lower()
        return next((p for p in parsers if p.media_type == wanted), None)

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type


class NewestFirst(CursorPagination):
    """Pages of 50, at most 200, that do not shift while rows are added."""

    ordering: str | tuple[str, ...] = "-id"
    page_size = 50
    max_page_size = 200
    page_size_query_param = "page_size"

    def decode_cursor(self, request: Request) -> Cursor | None:
        cursor = super().decode_cursor(request)
        position = getattr(cursor, "position", None)
        if position is not None and not self.is_position(request, position):
            raise NotFound(self.invalid_cursor_message)
        return cursor

    def is_position(self, request: Request, position: str) -> bool:
        """Whether a cursor's text can be a value of what is ordered by."""
        return bool(POSITION.fullmatch(position))


class ByName(NewestFirst):
    """Pages in the order of a name, such as a node's; a view's `ordering` begins with it."""

    ordering = ("name",)

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        return getattr(view, "ordering", self.ordering)

    def is_position(self, request: Request, position: str) -> bool:
        return 0 < len(position) <= MOST_NAME and position.isprintable()
