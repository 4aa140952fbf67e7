"""Form fields of the console: amounts in units, active users and moments."""

from datetime import datetime
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.web.console.amounts import parse_amount
from scheduler.core.request.moments import read_moment


class AmountField(forms.CharField):
    """An amount of GPUs or GPU-hours, cleaned to integer units; empty means 0 if not required."""

    default_error_messages = {"required": _("Enter a number such as 4, 0.5 or 2/7")}

    def __init__(self, *, unit: int, max_units: int, too_large: Any, **options: Any) -> None:
        super().__init__(**options)
        self.unit, self.max_units, self.too_large = unit, max_units, too_large

    def clean(self, value: Any) -> int:
        text = super().clean(value)
        try:
            units = parse_amount(text or "0", self.unit)
        except ValueError as wrong:
            raise forms.ValidationError(str(wrong)) from wrong
        if units > self.max_units:
            raise forms.ValidationError(self.too_large)
        return units


class ActiveUserField(forms.CharField):
    """A user's name, cleaned to the account, or None if empty."""

    default_error_messages = {"unknown": _("No such user. Enter the name they sign in with")}

    def clean(self, value: Any) -> User | None:
        name = super().clean(value)
        if not name:
            return None
        user = User.objects.filter(username=name[:150], is_active=True).first()
        if user is None:
            raise forms.ValidationError(self.error_messages["unknown"], code="unknown")
        return user


class MomentField(forms.CharField):
    """A date and time; without an offset, in the reader's time zone."""

    default_error_messages = {
        "required": _("Enter a date and time such as 2026-12-01T00:00"),
    }

    def clean(self, value: Any) -> datetime:
        moment = read_moment(super().clean(value), timezone.localtime())
        if moment is None:
            raise forms.ValidationError(self.error_messages["required"], code="invalid")
        return moment
