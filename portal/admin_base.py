"""Shared by all admin modules: read-only pages, versioned forms, refusals shown as messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _
from unfold.admin import ModelAdmin

from portal.errors import Refused


class ReadOnlyAdmin(ModelAdmin):
    """Rows that only the portal writes: nobody adds, changes or deletes them by hand."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class VersionedForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """A form of a row with a `version`. Saving an outdated version shows the current values."""

    read_version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["read_version"] = self.instance.version if self.instance.pk else None

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        now = type(self.instance).objects.filter(pk=self.instance.pk).first()
        if now is None or values.get("read_version") in (None, now.version):
            return values
        theirs = "; ".join(
            f"{self.fields[name].label or name}: {getattr(now, name)}"
            for name in self.changed_data
            if name != "read_version" and hasattr(now, name)
        )
        message = _("This changed since you opened it. It now reads: %(theirs)s")
        raise forms.ValidationError(message % {"theirs": theirs or f"version {now.version}"})


@contextmanager
def show_refusals(request: HttpRequest) -> Iterator[None]:
    """Show a refusal as a message instead of failing the page."""
    try:
        yield
    except Refused as refused:
        messages.error(request, refused.sentence)
