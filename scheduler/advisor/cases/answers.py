"""The answer to a case: a value in the case's unit, or what is missing."""

from collections.abc import Callable, Mapping
from typing import Any

from scheduler.advisor.cases import memory_cases, time_cases
from scheduler.advisor.cases.inputs import Inputs
from scheduler.advisor.errors import AdvisorError

Formula = Callable[[Inputs, str], float | int | bool]
CATEGORIES: Mapping[str, Formula] = {
    "memory": memory_cases.memory,
    "host_memory": memory_cases.host_memory,
    "memory_ratio": memory_cases.memory_ratio,
    "bytes_per_param": memory_cases.bytes_per_parameter,
    "kv_cache": memory_cases.kv_cache,
    "feasibility": memory_cases.feasibility,
    "time": time_cases.time,
    "throughput": time_cases.throughput,
    "utilisation": time_cases.utilisation,
    "params": time_cases.parameters,
    "layout": time_cases.data_parallel_size,
    "pipeline": time_cases.pipeline,
    "comm": time_cases.communication,
}


def answer(case: Mapping[str, Any]) -> dict[str, Any]:
    """`{"id", "value", "unit"}`, or `{"id", "error"}`. What a case expects is never read."""
    name = case.get("id")
    try:
        return {"id": name, "value": _value(case), "unit": case.get("unit", "")}
    except AdvisorError as error:
        return {"id": name, "error": str(error)}
    except (OverflowError, ZeroDivisionError):
        return {"id": name, "error": "the inputs are out of the range that can be calculated"}


def _value(case: Mapping[str, Any]) -> float | int | bool:
    category, inputs, unit = case.get("category"), case.get("inputs"), case.get("unit", "")
    if not isinstance(category, str) or category not in CATEGORIES:
        raise AdvisorError(f"category must be one of {', '.join(CATEGORIES)}")
    if not isinstance(inputs, Mapping):
        raise AdvisorError("inputs must be an object")
    if not isinstance(unit, str) or not unit.strip():
        raise AdvisorError("unit is missing")
    return CATEGORIES[category](Inputs(inputs), unit)
