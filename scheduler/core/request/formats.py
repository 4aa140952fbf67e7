"""Writes a request as canonical JSON, for storage, and as YAML."""

import json
import re
from typing import Any

from scheduler.core.model.snapshot import DeviceRequest, Isolation
from scheduler.core.request.conditions import write_begin
from scheduler.core.request.quantities import write_cpu, write_memory, write_seconds
from scheduler.core.request.values import JobRequest

# Characters that JSON accepts unescaped but YAML folds or refuses. Both read the escape.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def request_as_dict(request: JobRequest) -> dict[str, Any]:
    """The canonical form with every default filled in, except that disk and conditions appear only
    if they were requested. Reading it returns the same request."""
    return {
        "project": request.project,
        "name": request.name,
        "kind": str(request.kind),
        "image": request.image,
        "command": list(request.command),
        "launcher": str(request.launcher),
        "replicas": request.replicas,
        "processes": request.processes,
        "device": device_as_dict(request.device),
        "cpu": write_cpu(request.cpu_milli),
        "memory": write_memory(request.memory_mib),
        "shm": write_memory(request.shm_mib),
        **({"disk": write_memory(request.disk_mib)} if request.disk_mib else {}),
        "time_limit": write_seconds(request.time_limit_seconds),
        "priority": str(request.priority),
        "topology": str(request.topology),
        "backend": str(request.backend),
        "retries": {"infrastructure": request.infrastructure_retries, "user": request.user_retries},
        "grace": write_seconds(request.grace_seconds),
        "env": dict(request.env),
        "preemptible": request.preemptible,
        **_conditions(request),
    }


def request_as_yaml(request: JobRequest) -> str:
    """YAML that reads back to the same request. Its values are JSON, a subset of YAML."""
    fields = request_as_dict(request).items()
    return "".join(f"{name}: {_plain(value)}\n" for name, value in fields if value != {})


def _conditions(request: JobRequest) -> dict[str, Any]:
    delay = write_seconds(request.begin_in)
    written = {
        "begin_at": write_begin(request.begin_at, delay),
        "after": list(request.after),
        "needs": list(request.needs),
        "tolerates": list(request.tolerates),
    }
    return {name: value for name, value in written.items() if value}


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
