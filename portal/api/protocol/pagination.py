"""Cursor pagination: pages that do not shift while rows are added."""

import re
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

ID_POSITION = re.compile(r"[0-9]{1,18}")
# The longest name that lists are ordered by.
MAX_NAME_LENGTH = 64


class NewestFirstPagination(CursorPagination):
    """Pages of 50 rows (`page_size`: at most 200), newest first."""

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
        """Whether a cursor's text can be a value of the column that orders the list."""
        return bool(ID_POSITION.fullmatch(position))


def is_moment(position: str) -> bool:
    """Whether a cursor's text can be a value of a column of moments."""
    try:
        moment = parse_datetime(position)
    except ValueError:
        return False
    return moment is not None and moment.tzinfo is not None


class OldestFirstPagination(NewestFirstPagination):
    """The same, the longest waiting first."""

    ordering = "id"


class NamePagination(NewestFirstPagination):
    """Pages ordered by name, such as a node's; a view's `ordering` begins with the name."""

    ordering = ("name",)

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        return getattr(view, "ordering", self.ordering)

    def is_position(self, request: Request, position: str) -> bool:
        return 0 < len(position) <= MAX_NAME_LENGTH and position.isprintable()
