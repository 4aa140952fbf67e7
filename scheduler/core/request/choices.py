"""The enum behind each choice in a request."""

from collections.abc import Mapping
from enum import StrEnum

from agents.contract.documents import CollectiveBackend
from agents.contract.launcher_names import LauncherName
from agents.contract.profilers import Profiler
from agents.contract.rank_network import RdmaUse
from scheduler.core.model.snapshot import Isolation, Priority, Topology
from scheduler.core.request.values import ContainerSharing, GangPreflight, JobKind
from scheduler.core.request_fields import RequestField

CHOICES: Mapping[str, type[StrEnum]] = {
    "kind": JobKind,
    "launcher": LauncherName,
    "priority": Priority,
    "topology": Topology,
    "backend": CollectiveBackend,
    "rdma": RdmaUse,
    "containers": ContainerSharing,
    "preflight": GangPreflight,
    "profiler": Profiler,
    "device.isolation": Isolation,
}


def choices_of(field: RequestField) -> tuple[str, ...]:
    """Its words; empty for a field that is no choice."""
    return tuple(str(word) for word in CHOICES.get(field.name, ()))
