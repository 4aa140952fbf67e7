"""Parses GPUs and GPU-hours as people type them (4, 0.5, 2/7) into integer units, exactly."""

import re
from fractions import Fraction

from django.utils.translation import gettext as _

from agents.contract.units import SECONDS_PER_HOUR, UNITS_PER_GPU

GPU = UNITS_PER_GPU
GPU_HOUR = UNITS_PER_GPU * SECONDS_PER_HOUR
AMOUNT = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?|[0-9]{1,12}/[1-9][0-9]{0,5}")


def parse_amount(text: str, per: int) -> int:
    """Units, with `per` units in one of what was typed. Raises ValueError with what to write."""
    text = text.strip()
    if not AMOUNT.fullmatch(text):
        raise ValueError(_("Enter a number such as 4, 0.5 or 2/7"))
    units = Fraction(text) * per
    if units.denominator != 1:
        raise ValueError(_("Enter a whole number of units; one GPU is 56,000 units"))
    return int(units)


def format_amount(units: int, per: int) -> str:
    """The inverse of `parse_amount`: a short decimal, or a fraction where that is not exact."""
    amount = Fraction(units, per)
    if (10**3) % amount.denominator == 0:
        return f"{float(amount):.3f}".rstrip("0").rstrip(".")
    return f"{amount.numerator}/{amount.denominator}"
