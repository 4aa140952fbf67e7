"""The choices of the request form's lists."""

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from agents.contract.documents import CollectiveBackend
from agents.launchers.base import Launcher
from agents.launchers.registry import LAUNCHERS
from scheduler.core.model.snapshot import Isolation, Priority, Topology


def _launcher_label(launcher: Launcher) -> Promise:
    return format_lazy("{}: {}", launcher.name, gettext_lazy(launcher.summary))


CHOICES: Mapping[str, Mapping[str, str | Promise]] = {
    "topologies": {
        Topology.BEST: gettext_lazy("best: as close together as possible"),
        Topology.SAME_NODE: gettext_lazy("all on one node"),
        Topology.NVLINK: gettext_lazy("connected by NVLink"),
        Topology.ANY: gettext_lazy("anywhere"),
    },
    "launchers": {name: _launcher_label(launcher) for name, launcher in LAUNCHERS.items()},
    "backends": {
        CollectiveBackend.AUTO: gettext_lazy("auto: nccl on whole GPUs, gloo on slices"),
        CollectiveBackend.NCCL: "nccl",
        CollectiveBackend.GLOO: "gloo",
    },
    "isolations": {
        Isolation.HARDWARE: gettext_lazy("hardware: a slice or a whole GPU"),
        Isolation.ANY: gettext_lazy("any: an MPS share is enough"),
    },
    "preemptible_choices": {
        "": gettext_lazy("only at low priority"),
        "yes": gettext_lazy("yes"),
        "no": gettext_lazy("no"),
    },
    "priorities": {
        Priority.LOW: gettext_lazy("low"),
        Priority.NORMAL: gettext_lazy("normal"),
        Priority.HIGH: gettext_lazy("high"),
    },
}


def form_choices() -> dict[str, list[tuple[str, str | Promise]]]:
    """Values and labels, by the name of the list in the template."""
    return {
        name: [(str(value), label) for value, label in choices.items()]
        for name, choices in CHOICES.items()
    }
