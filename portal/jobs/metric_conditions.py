"""Conditions on the last values that jobs have reported: "loss<0.3, accuracy>=0.9"."""

import math
import re
from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.forms import CharField
from django.utils.translation import gettext_lazy as _

MAX_CONDITIONS = 4
LOOKUPS = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte", "=": "exact"}
_CONDITION = re.compile(
    r"(?P<name>\w[\w./-]{0,63})\s*(?:(?P<sign><=|>=|<|>|=)\s*(?P<value>[-+0-9.eE]{1,32}))?"
)


@dataclass(frozen=True, slots=True)
class MetricCondition:
    """`lookup` is empty for a metric that need only be reported."""

    name: str
    lookup: str = ""
    value: float = 0


def parse_conditions(text: str) -> tuple[MetricCondition, ...]:
    """Raises ValueError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MAX_CONDITIONS:
        raise ValueError(text)
    return tuple(_condition(part) for part in parts)


def _condition(text: str) -> MetricCondition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    if not match["sign"]:
        return MetricCondition(match["name"])
    value = float(match["value"])
    if not math.isfinite(value):
        raise ValueError(text)
    return MetricCondition(match["name"], LOOKUPS[match["sign"]], value)


class MetricConditionsField(CharField):
    def validate(self, value: str) -> None:
        super().validate(value)
        if not value:
            return
        try:
            parse_conditions(value)
        except ValueError:
            sentence = _("Enter a metric and a bound, such as loss<0.3 or loss<0.3, accuracy>=0.9")
            raise ValidationError(sentence, code="invalid") from None
