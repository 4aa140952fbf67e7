"""Forms of the Account page."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import TokenScope
from portal.accounts.services import MAX_TOKEN_TTL
from portal.web.fields import SingleLineField

NAME_LENGTH = 64
SCOPE_ERROR = _("Choose what it may do")
DAYS_ERROR = _("Enter a number of days from 1 to 365")


class DaysField(forms.IntegerField):
    """A number of days in ASCII digits."""

    def to_python(self, value: Any) -> int | None:
        if not str(value or "").isascii():
            raise forms.ValidationError(DAYS_ERROR)
        return super().to_python(value)


class TokenForm(forms.Form):
    """A new API token."""

    name = SingleLineField(
        max_length=NAME_LENGTH,
        sentence=_("Enter where it will be used, in 1 to 64 characters on one line"),
    )
    scope = forms.ChoiceField(
        choices=[(str(scope), str(scope)) for scope in TokenScope],
        initial=str(TokenScope.WRITE),
        error_messages={"required": SCOPE_ERROR, "invalid_choice": SCOPE_ERROR},
    )
    days = DaysField(
        min_value=1,
        max_value=MAX_TOKEN_TTL.days,
        initial=90,
        error_messages=dict.fromkeys(("required", "invalid", "min_value", "max_value"), DAYS_ERROR),
    )
