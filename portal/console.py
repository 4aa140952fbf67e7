"""What the admin consoles of all nouns share: rows nobody edits, and refusals shown as messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from portal.errors import Refused


class ReadOnlyAdmin(ModelAdmin):
    """Rows that the machine writes: looked at, never added, changed or deleted by hand."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@contextmanager
def refusals_shown(request: HttpRequest) -> Iterator[None]:
    """Show what a service refuses instead of failing the page."""
    try:
        yield
    except Refused as refused:
        messages.error(request, refused.sentence)
