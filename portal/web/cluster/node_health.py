"""What is wrong with a node, for people: what blocks it, which GPUs are out, what only warns."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.inventory.models import Gpu, Node
from portal.web.cluster.interconnect import span
from scheduler.core.model.states import GpuHealth, NodeStatus

# What the agent's preflight puts around its sentences (agents.doctor.checks.Finding.sentence).
VERDICT = re.compile(r"\A(?:block|warn): ")
MEND = " Mend: "


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to know about a node. `mend` is a command, or empty."""

    cls: str
    icon: str
    text: str
    mend: str = ""


def takes_work(node: Node) -> bool:
    """Whether the planner gives it new work: the same three rules as portal.planning.snapshot."""
    return node.status == NodeStatus.ONLINE and node.schedulable and not node.facts.get("blocks")


def why_out(gpu: Gpu) -> str:
    """Why a GPU is out of service, empty where it is in service."""
    if gpu.health == GpuHealth.OK:
        return ""
    return gpu.health_reason or _("the driver no longer lists it")


def notes(node: Node, gpus: Iterable[Gpu]) -> list[Note]:
    """What blocks, then what is out of service, then warnings; each said once."""
    blocks, problems = node.facts.get("blocks", ()), node.facts.get("problems", ())
    warnings = [said for said in problems if said not in blocks]
    return [
        *_cordon(node),
        *(_note("bad", "stop", said) for said in dict.fromkeys(blocks)),
        *_outages(gpus),
        *(_note("warn", "alert", said) for said in dict.fromkeys(warnings)),
    ]


def _cordon(node: Node) -> list[Note]:
    if node.schedulable:
        return []
    why = node.cordon_reason or _("no reason given")
    return [Note("warn", "stop", _("Takes no new work: %(why)s") % {"why": why})]


def _note(cls: str, icon: str, said: str) -> Note:
    text, _mend, mend = VERDICT.sub("", said).partition(MEND)
    return Note(cls, icon, text, mend)


def _outages(gpus: Iterable[Gpu]) -> Iterable[Note]:
    """GPUs that are out for one and the same reason stand in one sentence."""
    out: dict[str, list[int]] = {}
    for gpu in gpus:
        if why := why_out(gpu):
            out.setdefault(why, []).append(gpu.index)
    for why, indexes in out.items():
        said = ngettext("GPU %(gpus)s: %(why)s", "GPUs %(gpus)s: %(why)s", len(indexes))
        yield Note("bad", "x", said % {"gpus": span(indexes), "why": why})
