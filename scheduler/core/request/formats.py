"""Writes a request as canonical JSON, for storage, and as YAML."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from scheduler.core.model.snapshot import DeviceRequest, Isolation
from scheduler.core.request.conditions import write_begin
from scheduler.core.request.quantities import write_cpu, write_memory, write_seconds
from scheduler.core.request.values import JobRequest
from scheduler.core.request.volumes import write_volumes
from scheduler.core.request_fields import FIELDS, FieldKind, RequestField

# Characters that JSON accepts unescaped but YAML folds or refuses. Both read the escape.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

# How the value of a field is written, by kind; any other is written as it is.
WRITERS: Mapping[FieldKind, Callable[[Any], Any]] = {
    FieldKind.CHOICE: str,
    FieldKind.CPU: write_cpu,
    FieldKind.SIZE: write_memory,
    FieldKind.DURATION: write_seconds,
    FieldKind.COMMAND: list,
    FieldKind.WORDS: list,
    FieldKind.VARIABLES: dict,
    FieldKind.VOLUMES: write_volumes,
}


def request_as_dict(request: JobRequest) -> dict[str, Any]:
    """The canonical form with every default filled in, except that disk and conditions appear only
    if they were requested. Reading it returns the same request."""
    written: dict[str, Any] = {}
    for field in FIELDS:
        if field.top == "device":
            written["device"] = device_as_dict(request.device)
            continue
        value = _value(request, field)
        is_default = value is field.default if field.kind is FieldKind.YES_NO else not value
        if field.is_optional_in_storage and is_default:
            continue
        if write := WRITERS.get(field.kind):
            value = write(value)
        field.write_to(written, value)
    return written


def request_as_yaml(request: JobRequest) -> str:
    """YAML that reads back to the same request. Its values are JSON, a subset of YAML."""
    fields = request_as_dict(request).items()
    return "".join(f"{name}: {_plain(value)}\n" for name, value in fields if value != {})


def _value(request: JobRequest, field: RequestField) -> Any:
    if field.kind is FieldKind.BEGIN:
        return write_begin(request.begin_at, write_seconds(request.begin_in))
    if field.kind is FieldKind.COUNT_RANGE and request.max_replicas:
        return {"min": request.replicas, "max": request.max_replicas}
    return getattr(request, field.attribute)


def device_as_dict(device: DeviceRequest) -> dict[str, Any]:
    """The device of a request, as people write it."""
    written: dict[str, Any] = {}
    if device.gpus:
        written["gpus"] = device.gpus
    elif device.mig:
        written["mig"] = device.mig
    elif device.mps_threads:
        memory = write_memory(device.mps_memory_mib)
        written["mps"] = {"threads": device.mps_threads, "memory": memory}
    else:
        written["memory"] = write_memory(device.memory_mib)
    if device.models:
        written["models"] = list(device.models)
    if device.isolation is not Isolation.HARDWARE:
        written["isolation"] = str(device.isolation)
    return written


def _plain(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", written)
