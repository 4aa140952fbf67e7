"""The fields of a job request that a launcher reads, from a file that the portal's check accepts.

The portal's own check is `scheduler.core.request`; this one reads files of developers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from agents.contract.documents import CollectiveBackend, DesiredReplica, Device, SliceKind
from agents.contract.launcher_names import LauncherName
from agents.launchers.registry import LAUNCHERS

KINDS = {"mig": SliceKind.MIG, "memory": SliceKind.MIG, "mps": SliceKind.MPS}


def read_request(path: Path) -> dict[str, Any]:
    """A request in YAML or JSON. Raises OSError or ValueError."""
    try:
        request = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {error}") from error
    if not isinstance(request, dict):
        raise ValueError(f"{path} has no fields of a job request")
    return request


def requested_replica(request: Mapping[str, Any], launcher: LauncherName) -> DesiredReplica:
    """Rank 0 of the job under this launcher, whatever the request says."""
    devices = _devices(request.get("device", {}))
    gpus = sum(each.kind is SliceKind.GPU for each in devices)
    return DesiredReplica(
        id="replica-0",
        job="job",
        world=_replicas(request.get("replicas", 1)),
        name=str(request.get("name", "")),
        command=tuple(map(str, request.get("command", ()))),
        launcher=launcher,
        env={str(name): str(text) for name, text in request.get("env", {}).items()},
        devices=devices,
        processes=int(request.get("processes", LAUNCHERS[launcher].default_processes(gpus))),
        backend=CollectiveBackend(request.get("backend", "auto")),
    )


def _replicas(value: Any) -> int:
    """Of several sizes, the least."""
    return int(value["min"] if isinstance(value, Mapping) else value)


def _devices(device: Mapping[str, Any]) -> tuple[Device, ...]:
    kind = next((KINDS[name] for name in KINDS if name in device), SliceKind.GPU)
    count = int(device.get("gpus", 0)) if kind is SliceKind.GPU else 1
    return tuple(Device(f"a-{number}", f"s-{number}", kind) for number in range(count))
