"""The form of a new token for apps."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.accounts.services import MAX_TOKEN_TTL
from portal.web.account.forms import DAYS_ERROR, NAME_LENGTH, DaysField
from portal.web.fields import SingleLineField

OPENS_ERROR = _("Choose what it opens")


class AppTokenForm(forms.Form):
    """`opens`: "vision", or "J-12/web"."""

    name = SingleLineField(
        max_length=NAME_LENGTH,
        sentence=_("Enter where it will be used, in 1 to 64 characters on one line"),
    )
    opens = forms.ChoiceField(
        error_messages={"required": OPENS_ERROR, "invalid_choice": OPENS_ERROR}
    )
    days = DaysField(
        min_value=1,
        max_value=MAX_TOKEN_TTL.days,
        initial=90,
        error_messages=dict.fromkeys(("required", "invalid", "min_value", "max_value"), DAYS_ERROR),
    )

    def __init__(self, *args: Any, choices: Iterable[tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["opens"].choices = list(choices)  # type: ignore[attr-defined]
