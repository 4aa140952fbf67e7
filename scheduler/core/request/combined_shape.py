"""What of a request goes together or does not, as a gang of one size."""

from collections.abc import Mapping
from typing import Any

from agents.combinations.commands import command_traits
from agents.combinations.shape import GangShape
from scheduler.core.model.gang_shapes import requested_shape
from scheduler.core.model.snapshot import DeviceRequest


def shape_of(values: Mapping[str, Any], device: DeviceRequest, replicas: int) -> GangShape:
    """`values`: by attribute of JobRequest."""
    return requested_shape(
        device,
        replicas=replicas,
        processes=values["processes"],
        launcher=values["launcher"],
        backend=values["backend"],
        topology=values["topology"],
        command=command_traits(values["command"]),
    )
