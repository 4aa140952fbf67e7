"""What is wrong with a node: what blocks it, which GPUs are out of service, and warnings."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.message import read_message
from portal.inventory.models import Gpu, Node
from portal.web.cluster.interconnect import index_ranges
from portal.web.wording.messages import message_text
from scheduler.core.model.states import GpuHealth, NodeStatus

# Added to each sentence by the agent's preflight (agents.doctor.checks.Finding.sentence).
VERDICT = re.compile(r"\A(?:block|warn): ")
REMEDY = " Mend: "


@dataclass(frozen=True, slots=True)
class NodeNote:
    """A problem of a node."""

    cls: str
    icon: str
    text: str
    # The command that fixes it, if there is one.
    remedy: str = ""


def takes_work(node: Node) -> bool:
    """Whether the planner places new work on it; the rules of `portal.planning.snapshot`."""
    is_closed = node.holding_since or node.restored_at or node.facts.get("blocks")
    return node.status == NodeStatus.ONLINE and node.schedulable and not is_closed


def out_of_service_reason(gpu: Gpu) -> str:
    """Why a GPU is out of service; empty if it is in service."""
    if gpu.health == GpuHealth.OK:
        return ""
    return gpu.health_reason or _("the driver no longer lists it")


def node_notes(node: Node, gpus: Iterable[Gpu]) -> list[NodeNote]:
    """That it holds back, the cordon, then what blocks work, GPUs out of service and warnings,
    without repetition."""
    blocks, problems = node.facts.get("blocks", ()), node.facts.get("problems", ())
    warnings = [problem for problem in problems if problem not in blocks]
    return [
        *_holding(node),
        *_cordon(node),
        *(_note("bad", "stop", problem) for problem in dict.fromkeys(blocks)),
        *_outages(gpus),
        *(_note("warn", "alert", problem) for problem in dict.fromkeys(warnings)),
        *_joining(node),
    ]


def _joining(node: Node) -> list[NodeNote]:
    problem = read_message(node.facts.get("joining_problem"))
    if problem is None:
        return []
    text = _("It is in no gang over several nodes: %(why)s") % {"why": message_text(problem)}
    return [NodeNote("warn", "alert", text)]


def shared_address_note(node: Node, others: Iterable[str]) -> list[NodeNote]:
    """`others`: names of nodes that report the same address."""
    names = ", ".join(others)
    if not names:
        return []
    text = _("%(nodes)s reports the same address, %(address)s: gangs over both cannot work")
    words = {"nodes": names, "address": node.facts["address"]}
    return [NodeNote("warn", "alert", text % words)]


def _holding(node: Node) -> list[NodeNote]:
    if node.holding_since is not None:
        text = _("Holds back: it runs work that the portal does not know. An admin has to decide")
        return [NodeNote("bad", "alert", text)]
    if node.restored_at is not None:
        text = _("Has not reported what it runs since the database was restored")
        return [NodeNote("warn", "alert", text)]
    return []


def _cordon(node: Node) -> list[NodeNote]:
    if node.schedulable:
        return []
    why = node.cordon_reason or _("no reason given")
    return [NodeNote("warn", "stop", _("Takes no new work: %(why)s") % {"why": why})]


def _note(cls: str, icon: str, problem: str) -> NodeNote:
    text, _separator, remedy = VERDICT.sub("", problem).partition(REMEDY)
    return NodeNote(cls, icon, text, remedy)


def _outages(gpus: Iterable[Gpu]) -> Iterable[NodeNote]:
    """One note for all GPUs that are out of service for the same reason."""
    indexes_by_reason: dict[str, list[int]] = {}
    for gpu in gpus:
        if reason := out_of_service_reason(gpu):
            indexes_by_reason.setdefault(reason, []).append(gpu.index)
    for reason, indexes in indexes_by_reason.items():
        text = ngettext("GPU %(gpus)s: %(why)s", "GPUs %(gpus)s: %(why)s", len(indexes))
        yield NodeNote("bad", "x", text % {"gpus": index_ranges(indexes), "why": reason})
