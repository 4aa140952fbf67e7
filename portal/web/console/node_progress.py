"""How far a node has come from its join token to its first job, as steps, and what it reports."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.gang_networks.selectors import nodes_at_its_address
from portal.inventory.models import Gpu, JoinToken, Node
from portal.inventory.selectors import unused_join_token
from portal.node_pairs.selectors import pairs_of
from portal.web.cluster.node_health import NodeNote, node_notes, shared_address_note, takes_work
from portal.web.console.pair_words import pair_notes
from portal.web.wording.labels import duration, memory_label
from scheduler.core.model.states import NodeStatus


@dataclass(frozen=True, slots=True)
class JoinStep:
    """One step of joining. `state`: CSS classes of the timeline."""

    state: str
    icon: str
    title: str
    sentence: str = ""
    at: datetime | None = None


def node_context(node: Node) -> dict[str, Any]:
    """The live parts of a node's page. Three queries, and one for a node with an address."""
    token = unused_join_token(node)
    gpus = list(node.gpus.order_by("index"))
    notes = node_notes(node, gpus) + shared_address_note(node, nodes_at_its_address(node))
    notes += pair_notes(pairs_of(node))
    return {
        "node": node,
        "token": token,
        "token_state": token_state(node, token),
        "steps": join_steps(node, token, gpus, notes),
        "headline": headline(node, gpus),
        "notes": notes,
        "facts": node_facts(node, gpus),
        "pinned_count": sum(gpu.pinned for gpu in gpus),
        "may_withdraw": not (node.epoch or node.public_key),
    }


def headline(node: Node, gpus: list[Gpu]) -> str:
    words = {"node": node.name}
    if node.last_seen_at is None:
        return _("Waiting for %(node)s") % words
    if not gpus:
        return _("%(node)s is in contact and looks at its GPUs") % words
    if node.status != NodeStatus.ONLINE:
        return _("%(node)s does not answer") % words
    if node.facts.get("blocks"):
        return _("%(node)s has joined, but a check blocks it") % words
    if not takes_work(node):
        return _("%(node)s takes no new work") % words
    return _("%(node)s is ready") % words


def token_state(node: Node, token: JoinToken | None) -> str:
    """What the join token of a node is good for, in one sentence; empty once it is in use."""
    if token is None:
        if node.public_key:
            return ""
        return _("It has no join token. Create one to let a machine join.")
    left = (token.expires_at - timezone.now()).total_seconds()
    if left <= 0:
        return _("Its join token has expired. Create a new one.")
    return _("Its join token works once, for another %(left)s.") % {"left": duration(left)}


def join_steps(
    node: Node, token: JoinToken | None, gpus: list[Gpu], notes: list[NodeNote]
) -> list[JoinStep]:
    """Added, enrolled, first heartbeat, hardware, ready: the first that is not done is now."""
    is_seen = node.last_seen_at is not None
    is_enrolled = bool(node.public_key) or is_seen
    is_ready = bool(gpus) and takes_work(node)
    blocking = [note for note in notes if note.cls == "bad"]
    count = ngettext("%(n)s GPU", "%(n)s GPUs", len(gpus)) % {"n": len(gpus)}
    steps = (
        (True, _("Added"), "", node.created_at),
        (
            is_enrolled,
            _("Enrolled with a key of its own"),
            "" if is_enrolled else _enrolment_hint(token),
            None,
        ),
        (
            is_seen,
            _("First heartbeat"),
            _("The agent calls the portal; no connection is made to the node."),
            None,
        ),
        (
            bool(gpus),
            _("Hardware reported"),
            count if gpus else _("What the driver lists, and what the doctor found."),
            None,
        ),
    )
    shown = []
    is_now = True
    for is_done, title, sentence, at in steps:
        state = "ok" if is_done else "move now" if is_now else "next"
        is_now = is_now and is_done
        icon = "check" if is_done else "clock"
        shown.append(JoinStep(state, icon, title, sentence, at))
    shown.append(_last_step(is_ready, is_now, blocking))
    return shown


def _last_step(is_ready: bool, is_now: bool, blocking: list[NodeNote]) -> JoinStep:
    title = _("Ready for jobs")
    if is_ready:
        return JoinStep("ok", "check", title)
    if is_now and blocking:
        return JoinStep("bad now", "stop", title, _("What blocks it is listed under Findings."))
    return JoinStep("move now" if is_now else "next", "clock", title)


def _enrolment_hint(token: JoinToken | None) -> str:
    if token is None or token.expires_at <= timezone.now():
        return _("No machine used the join token before it expired.")
    return _("Paste the command on the machine. This page follows by itself.")


def node_facts(node: Node, gpus: list[Gpu]) -> list[tuple[str, str]]:
    """What the node reports, as rows of a list. Empty before its first report."""
    if not node.facts:
        return []
    models = Counter(gpu.product_name for gpu in gpus)
    facts = node.facts
    engine = " ".join(filter(None, (facts.get("runtime"), facts.get("runtime_version"))))
    cpus = f"{node.cpu_milli / 1000:g}"
    rows = (
        (_("GPUs"), ", ".join(f"{n} × {name}" for name, n in sorted(models.items()))),
        (_("Driver"), facts.get("driver_version") or ""),
        ("CUDA", facts.get("cuda_version") or ""),
        (_("Containers"), engine),
        (_("CPUs for jobs"), cpus if node.cpu_milli else ""),
        (_("Memory for jobs"), memory_label(node.memory_mib) if node.memory_mib else ""),
        (_("Disk for jobs"), memory_label(node.disk_mib) if node.disk_mib else ""),
        (_("Agent"), facts.get("agent_version") or ""),
        (_("Address for other nodes"), facts.get("address") or ""),
        (_("Gangs over several nodes"), _overlay_words(facts.get("overlay"))),
        (
            _("Egress of jobs"),
            _("limited by project") if facts.get("limits_egress") else _("not limited"),
        ),
        (_("Fabric"), node.fabric),
        (_("Driver is simulated"), _("yes") if facts.get("simulated") else ""),
    )
    return [(name, str(value)) for name, value in rows if value]


def _overlay_words(overlay: Mapping[str, Any] | None) -> str:
    if not overlay:
        return ""
    words = {name: overlay[name] for name in ("kind", "port", "mtu")}
    return _("by %(kind)s at UDP port %(port)s, packets up to %(mtu)s bytes") % words
