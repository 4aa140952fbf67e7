"""The cluster: what is free, and every GPU drawn as it is. Of a large one a page of nodes; the
others are one line each, with a page of their own."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents.contract.topology import NodeTopology
from portal.accounts.models import Membership, User
from portal.availability.nodes import NodeDigest, cluster_digest
from portal.inventory.models import Node
from portal.inventory.selectors import gpus, holders_on, nodes
from portal.telemetry.selectors import readings
from portal.web.cluster.cell import PATTERNS
from portal.web.cluster.cell_details import piece_told
from portal.web.cluster.filter import GROUPS, STATES, shown, wanted
from portal.web.cluster.interconnect import joined_nodes, topology_of
from portal.web.cluster.map import NodeMap, Viewer, draw
from portal.web.cluster.node_health import Note, notes
from portal.web.cluster.numa_brackets import brackets
from portal.web.cluster.sensors import sensor_rows
from portal.web.cluster.summary import OfModel, summary
from portal.web.http import person
from scheduler.core.model.states import NodeStatus

LEGEND = {
    "mine": gettext_lazy("Yours"),
    "team": gettext_lazy("Your project"),
    "other": gettext_lazy("Others"),
    "idle": gettext_lazy("Idle slice"),
    "free": gettext_lazy("Free to carve"),
    "carve": gettext_lazy("Being carved"),
    "dead": gettext_lazy("No place"),
    "fault": gettext_lazy("Out of service"),
}
Drawn = tuple[Node, NodeMap | None, list[Note]]


@login_required
def cluster(request: HttpRequest) -> HttpResponse:
    want = wanted(request.GET)
    context = live_parts(person(request), request.GET)
    context |= _fixed(context["topologies"]) | {
        "states": STATES.items(),
        "groups_by": GROUPS.items(),
        "all_groups": want.within("").query,
        "before": want.on(context["shown"].page - 1).query,
        "after": want.on(context["shown"].page + 1).query,
    }
    return render(request, "web/cluster.html", context)


@login_required
def node(request: HttpRequest, name: str) -> HttpResponse:
    """One node, drawn large, with the place that was clicked told whole."""
    user = person(request)
    context = live_parts(user, {**request.GET.dict(), "node": name})
    if not context["rows"]:
        raise Http404
    row, found, _notes = context["rows"][0]
    at = _place(request.GET)
    piece = piece_told(found, *at) if found and at else None
    query = {"node": name} | {key: request.GET[key] for key in ("gpu", "at") if key in request.GET}
    context |= _fixed(context["topologies"]) | {
        "node": row,
        "piece": piece,
        "query": urlencode(query),
    }
    return render(request, "web/cluster/page.html", context)


def live_parts(user: User, given: Mapping[str, str]) -> dict[str, Any]:
    """What changes while one looks at the page of this URL: maps, notes, sensors, tables."""
    if only := given.get("node", ""):
        return _parts(user, cluster_digest(only), [only], _place(given))
    want = wanted(given)
    digests = cluster_digest()
    page = shown(digests, want)
    told = summary(page.matching, want)
    some = len(page.matching) > len(page.drawn)
    return _parts(user, page.matching, page.drawn, None, is_brief=some) | {
        "shown": page,
        "want": want,
        "models": told,
        "all_models": _models(digests),
        "profiles": _profiles(told),
        "has_more_rows": any(node.name not in page.drawn for node in page.nodes),
    }


def _parts(
    user: User,
    digests: Iterable[NodeDigest],
    drawn: Iterable[str],
    place: tuple[int, int] | None,
    *,
    is_brief: bool = False,
) -> dict[str, Any]:
    """`is_brief`: without sensors, which stand on each node's own page."""
    digests, names = list(digests), list(drawn)
    maps = {found.name: found for found in node_maps(user, names, place)}
    known = {row.name: row for row in nodes().filter(name__in=names)}
    there = [known[name] for name in names if name in known]
    there = [row for row in there if row.status != NodeStatus.RETIRED]
    topologies = {row.name: topology_of(row) for row in there}
    by_name = {digest.name: digest for digest in digests}
    return {
        "rows": [_row(row, maps.get(row.name), topologies[row.name]) for row in there],
        "topologies": topologies,
        "digests": by_name,
        "headline": headline(sum(d.free for d in digests), sum(d.idle for d in digests)),
        "sentence": sentence(sum(d.gpus for d in digests), len(digests)),
        "sensors": {} if is_brief else sensor_rows(readings(user, nodes=names)),
    }


def node_maps(user: User, names: list[str], place: tuple[int, int] | None) -> list[NodeMap]:
    """The drawings of these nodes, with the owners that the user may know."""
    team = frozenset(Membership.objects.filter(user=user).values_list("project__slug", flat=True))
    chosen = (names[0], *place) if place and names else None
    return draw(
        gpus().filter(node__name__in=names),
        holders_on(user, names),
        Viewer(user.username, team, chosen),
    )


def _row(row: Node, found: NodeMap | None, topology: NodeTopology) -> Drawn:
    if found:
        found.brackets = brackets(topology, (line.gpu.index for line in found.rows))
    return row, found, notes(row, (line.gpu for line in found.rows) if found else ())


def _fixed(topologies: Mapping[str, NodeTopology]) -> dict[str, Any]:
    """What does not change while one looks."""
    return {
        "joined": joined_nodes(topologies),
        "legend": [(cls, PATTERNS.get(cls, ""), word) for cls, word in LEGEND.items()],
    }


def _place(given: Mapping[str, str]) -> tuple[int, int] | None:
    gpu, start = given.get("gpu", ""), given.get("at", "")
    if not (gpu.isascii() and gpu.isdigit() and start.isascii() and start.isdigit()):
        return None
    return int(gpu[:4]), int(start[:4])


def _models(digests: Iterable[NodeDigest]) -> list[str]:
    return sorted({model for digest in digests for model in digest.models})


def _profiles(told: Iterable[OfModel]) -> list[str]:
    return sorted({fit.profile for model in told for fit in model.fits})


def headline(free: int, idle: int) -> str:
    """The page's answer: what is free now."""
    whole = ngettext("%(n)s GPU", "%(n)s GPUs", free) % {"n": f"{free:,}"}
    slices = ngettext("%(n)s slice", "%(n)s slices", idle) % {"n": f"{idle:,}"}
    if free and idle:
        return _("%(gpus)s and %(slices)s are free now") % {"gpus": whole, "slices": slices}
    if free or idle:
        return _("%(what)s free now") % {"what": whole if free else slices}
    return _("Nothing is free now")


def sentence(gpu_count: int, node_count: int) -> str:
    count = {"n": f"{gpu_count:,}"}
    whole = ngettext("%(n)s GPU", "%(n)s GPUs", gpu_count) % count
    on = ngettext("on %(n)s node", "on %(n)s nodes", node_count) % {"n": f"{node_count:,}"}
    return _("%(gpus)s %(nodes)s. Free slices are carved in seconds for whoever asks") % {
        "gpus": whole,
        "nodes": on,
    }
