"""What the admin consoles of all nouns share: rows nobody edits, and refusals shown as messages."""

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
    """Rows that the machine writes: looked at, never added, changed or deleted by hand."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class VersionedForm(forms.ModelForm):
    """A row with a version: whoever saves an older one than there is reads what there is now."""

    seen = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["seen"] = self.instance.version if self.instance.pk else None

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        now = type(self.instance).objects.filter(pk=self.instance.pk).first()
        if now is None or values.get("seen") in (None, now.version):
            return values
        theirs = "; ".join(
            f"{self.fields[name].label or name}: {getattr(now, name)}"
            for name in self.changed_data
            if name != "seen" and hasattr(now, name)
        )
        said = _("Somebody changed it since you read it. There it says now: %(theirs)s")
        raise forms.ValidationError(said % {"theirs": theirs or f"version {now.version}"})


@contextmanager
def show_refusals(request: HttpRequest) -> Iterator[None]:
    """Show what a service refuses instead of failing the page."""
    try:
        yield
    except Refused as refused:
        messages.error(request, refused.sentence)
