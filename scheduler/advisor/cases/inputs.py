"""Inputs of a case, read with their names in every error."""

import math
import re
from collections.abc import Mapping
from typing import Any

from scheduler.advisor.errors import AdvisorError

LARGEST = 1e21


class Inputs:
    """What a case gives. Numbers are finite, and never negative."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def number(self, name: str, default: float | None = None) -> float:
        value = self._values.get(name)
        if value is None:
            if default is None:
                raise AdvisorError(f"{name} is missing")
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise AdvisorError(f"{name} must be a number")
        if not math.isfinite(value) or not 0 <= value <= LARGEST:
            raise AdvisorError(f"{name} must be between 0 and {LARGEST:.0e}")
        return float(value)

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        value = self.number(name, default)
        if value < 1 or value != int(value):
            raise AdvisorError(f"{name} must be a whole number of at least 1")
        return int(value)

    def word(self, name: str, default: str | None = None) -> str:
        value = self._values.get(name)
        if value is None:
            if default is None:
                raise AdvisorError(f"{name} is missing")
            return default
        if not isinstance(value, str):
            raise AdvisorError(f"{name} must be text")
        return value

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if value not in (True, False, 0, 1):
            raise AdvisorError(f"{name} must be true or false")
        return bool(value)

    def bandwidth(self, name: str) -> float:
        """GB/s, as a number or at the beginning of a text, in bytes a second."""
        value = self._values.get(name)
        if isinstance(value, str):
            found = re.match(r"\s*(\d+(?:\.\d+)?)\s*GB/s", value)
            if not found:
                raise AdvisorError(f"{name} must begin with a number of GB/s")
            return float(found[1]) * 1e9
        return self.number(name) * 1e9
