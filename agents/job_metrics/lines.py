"""One line of a metrics file as points. Pure.

Two forms: {"step": 3, "name": "loss", "value": 0.4} and {"step": 3, "loss": 0.4, "accuracy": 0.9}.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from agents.contract.job_metrics import MAX_STEP, METRIC_NAME, SkipReason

MAX_LINE_BYTES = 16 << 10
_NAME = re.compile(METRIC_NAME)
# Keys of the second form that are no metric: a time beside the values is harmless.
_OTHER_KEYS = frozenset({"step", "time", "timestamp"})


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One number that a job has reported."""

    name: str
    step: int
    value: float


def read_line(line: bytes) -> tuple[list[MetricPoint], list[SkipReason]]:
    """Its points, and why other values of it are none. An empty line has neither."""
    if not line.strip():
        return [], []
    try:
        found = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return [], [SkipReason.NOT_UTF8]
    except (ValueError, RecursionError):
        return [], [SkipReason.NOT_JSON]
    if not isinstance(found, dict):
        return [], [SkipReason.NOT_JSON]
    step = _step(found.get("step"))
    if step is None:
        return [], [SkipReason.NO_STEP]
    points, skipped = list[MetricPoint](), list[SkipReason]()
    for name, value in _values(found):
        number = _number(value)
        if isinstance(number, SkipReason):
            skipped.append(number)
        elif isinstance(name, str) and _NAME.fullmatch(name):
            points.append(MetricPoint(name, step, number))
        else:
            skipped.append(SkipReason.NAME_REFUSED)
    if not points and not skipped:
        skipped = [SkipReason.NO_VALUE]
    return points, skipped


def _values(found: dict[str, Any]) -> list[tuple[Any, Any]]:
    if "value" in found:
        return [(found.get("name"), found["value"])]
    return [(name, value) for name, value in found.items() if name not in _OTHER_KEYS]


def _step(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= MAX_STEP or value != int(value):
        return None
    return int(value)


def _number(value: Any) -> float | SkipReason:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return SkipReason.NO_VALUE
    try:
        number = float(value)
    except OverflowError:
        return SkipReason.NOT_FINITE
    return number if math.isfinite(number) else SkipReason.NOT_FINITE
