"""The labels of the choices of a request, by field of the table."""

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from agents.contract.documents import CollectiveBackend
from agents.contract.profilers import Profiler
from agents.contract.rank_network import RdmaUse
from agents.launchers.base import Launcher
from agents.launchers.registry import LAUNCHERS
from scheduler.core.model.snapshot import Isolation, Priority, Topology
from scheduler.core.request.choices import choices_of
from scheduler.core.request.values import ContainerSharing, GangPreflight, JobKind
from scheduler.core.request_fields import RequestField


def _launcher_label(launcher: Launcher) -> Promise:
    return format_lazy("{}: {}", launcher.name, gettext_lazy(launcher.summary))


CHOICES: Mapping[str, Mapping[str, str | Promise]] = {
    "kind": {
        JobKind.BATCH: gettext_lazy("batch: its program runs and ends"),
        JobKind.NOTEBOOK: gettext_lazy("notebook: its owner works in it"),
        JobKind.SERVICE: gettext_lazy("service: it answers those who may run jobs in the project"),
    },
    "topology": {
        Topology.BEST: gettext_lazy("best: as close together as possible"),
        Topology.SAME_NODE: gettext_lazy("all on one node"),
        Topology.NVLINK: gettext_lazy("connected by NVLink"),
        Topology.ANY: gettext_lazy("anywhere"),
    },
    "launcher": {name: _launcher_label(launcher) for name, launcher in LAUNCHERS.items()},
    "backend": {
        CollectiveBackend.AUTO: gettext_lazy("auto: nccl on whole GPUs, gloo on slices"),
        CollectiveBackend.NCCL: "nccl",
        CollectiveBackend.GLOO: "gloo",
    },
    "rdma": {
        RdmaUse.AUTO: gettext_lazy("auto: where all of its nodes offer it"),
        RdmaUse.ON: gettext_lazy("on: only on nodes that offer it"),
        RdmaUse.OFF: gettext_lazy("off: sockets"),
    },
    "containers": {
        ContainerSharing.PER_NODE: gettext_lazy("per node, where they can share one"),
        ContainerSharing.PER_REPLICA: gettext_lazy("per replica"),
    },
    "preflight": {
        GangPreflight.NONE: gettext_lazy("none"),
        GangPreflight.ALL_REDUCE: gettext_lazy(
            "all-reduce: before each start on nodes not measured lately"
        ),
    },
    "profiler": {
        Profiler.NONE: gettext_lazy("none"),
        Profiler.PYTORCH: gettext_lazy("PyTorch's profiler: for trainings"),
    },
    "device.isolation": {
        Isolation.HARDWARE: gettext_lazy("hardware: a slice or a whole GPU"),
        Isolation.ANY: gettext_lazy("any: an MPS share is enough"),
    },
    "preemptible": {
        "": gettext_lazy("only at low priority"),
        "yes": gettext_lazy("yes"),
        "no": gettext_lazy("no"),
    },
    "idle_stop": {
        "": gettext_lazy("as the project's policy says"),
        "no": gettext_lazy("no"),
    },
    "priority": {
        Priority.LOW: gettext_lazy("low"),
        Priority.NORMAL: gettext_lazy("normal"),
        Priority.HIGH: gettext_lazy("high"),
    },
}


def choice_labels(field: RequestField) -> list[tuple[str, str | Promise]]:
    """Values and labels; a word without a label is its own. Empty for a field without choices."""
    labels = CHOICES.get(field.name, {})
    words = choices_of(field) or tuple(map(str, labels))
    return [(word, labels.get(word, word)) for word in words]
