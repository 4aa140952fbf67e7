"""What of a request goes together or does not, as a gang of one size."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents.combinations.commands import CommandTraits, command_traits
from agents.combinations.shape import GangShape
from agents.contract.profilers import Profiler
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
        command=_traits(values),
    )


def _traits(values: Mapping[str, Any]) -> CommandTraits:
    traits = command_traits(values["command"])
    if values["profiler"] is Profiler.NONE or traits.profiler:
        return traits
    return replace(traits, profiler="torch.profiler")
