"""The Cluster page and the page of a node.

A small cluster is drawn whole. Of a large one, a page lists the nodes in a table, and only the
first few are drawn.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents.contract.topology import NodeTopology
from portal.accounts.models import Membership, User
from portal.allocations.selectors import slice_holders_on_nodes
from portal.availability.nodes import NodeSummary, node_summaries
from portal.availability.selectors import availability_for
from portal.inventory.models import Node
from portal.inventory.selectors import gpus, nodes
from portal.telemetry.selectors import gpu_readings
from portal.web.cluster.cell import PATTERNS
from portal.web.cluster.cell_details import cell_details
from portal.web.cluster.filter import GROUPS, STATES, cluster_page, read_filter
from portal.web.cluster.interconnect import interconnects, topology_of
from portal.web.cluster.map import MapViewer, NodeMap, draw_nodes, with_counts
from portal.web.cluster.node_health import NodeNote, node_notes
from portal.web.cluster.numa_brackets import numa_brackets
from portal.web.cluster.sensors import sensor_rows
from portal.web.cluster.summary import model_summaries
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.capacity import counted_at, free_headline
from scheduler.core.availability.cluster import ClusterAvailability
from scheduler.core.availability.counts import Availability, availability_sum
from scheduler.core.model.states import NodeStatus

LEGEND = {
    "mine": gettext_lazy("Yours"),
    "team": gettext_lazy("Your project"),
    "other": gettext_lazy("Others"),
    "idle": gettext_lazy("Idle slice"),
    "free": gettext_lazy("Free to carve"),
    "carve": gettext_lazy("Being carved"),
    "dead": gettext_lazy("Unusable"),
    "fault": gettext_lazy("Out of service"),
}
NodeCard = tuple[Node, NodeMap | None, list[NodeNote]]


@login_required
def cluster(request: AuthenticatedHttpRequest) -> HttpResponse:
    node_filter = read_filter(request.GET)
    context = live_parts(request.user, request.GET)
    page = context["page"].page
    context |= _static_parts(context["topologies"]) | {
        "states": STATES.items(),
        "group_keys": GROUPS.items(),
        "all_groups_query": node_filter.in_group("").query,
        "previous_query": node_filter.with_page(page - 1).query,
        "next_query": node_filter.with_page(page + 1).query,
    }
    return render(request, "web/cluster/cluster.html", context)


@login_required
def node(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    """One node, drawn large, with the details of the selected cell."""
    context = live_parts(request.user, {**request.GET.dict(), "node": name})
    if not context["cards"]:
        raise Http404
    row, node_map, _notes = context["cards"][0]
    position = _selected_position(request.GET)
    details = cell_details(node_map, *position) if node_map and position else None
    query = {"node": name} | {key: request.GET[key] for key in ("gpu", "at") if key in request.GET}
    context |= _static_parts(context["topologies"]) | {
        "node": row,
        "details": details,
        "query": urlencode(query),
    }
    return render(request, "web/cluster/node.html", context)


def live_parts(user: User, params: Mapping[str, str]) -> dict[str, Any]:
    """Context of the parts that change while the page of this URL is open: maps, notes, sensors
    and tables."""
    cluster = availability_for(user)
    if name := params.get("node", ""):
        summaries = node_summaries(cluster, name)
        total = availability_sum(node.total for node in summaries)
        return _parts(user, cluster, summaries, total, [name], _selected_position(params))
    node_filter = read_filter(params)
    summaries = node_summaries(cluster)
    page = cluster_page(summaries, node_filter)
    models = model_summaries(page.matching, cluster, node_filter)
    total = availability_sum(model.total for model in models)
    all_drawn = len(page.matching) == len(page.drawn)
    parts = _parts(user, cluster, page.matching, total, page.drawn, None, with_sensors=all_drawn)
    return parts | {
        "page": page,
        "node_filter": node_filter,
        "models": models,
        "all_models": sorted({model for node in summaries for model in node.models}),
        "profiles": sorted({stock.profile for model in models for stock in model.profiles}),
        "has_more_rows": any(node.name not in page.drawn for node in page.nodes),
    }


def _parts(
    user: User,
    cluster: ClusterAvailability,
    summaries: Iterable[NodeSummary],
    total: Availability,
    drawn: Iterable[str],
    position: tuple[int, int] | None,
    *,
    with_sensors: bool = True,
) -> dict[str, Any]:
    counts, names = list(summaries), list(drawn)
    drawings = with_counts(node_maps(user, names, position), cluster)
    maps = {node_map.name: node_map for node_map in drawings}
    by_name = {row.name: row for row in nodes().filter(name__in=names)}
    rows = [by_name[name] for name in names if name in by_name]
    rows = [row for row in rows if row.status != NodeStatus.RETIRED]
    topologies = {row.name: topology_of(row) for row in rows}
    return {
        "cards": [_card(row, maps.get(row.name), topologies[row.name]) for row in rows],
        "topologies": topologies,
        "availability": {node.name: node for node in counts},
        "headline": free_headline(total),
        "sentence": size_sentence(total.gpus, len(counts)),
        "counted_at": counted_at(cluster),
        "sensors": sensor_rows(gpu_readings(user, nodes=names)) if with_sensors else {},
    }


def node_maps(user: User, names: list[str], position: tuple[int, int] | None) -> list[NodeMap]:
    """The drawings of these nodes, with the owners that the user may see.

    `position` selects a cell of the first node by GPU index and first memory slice.
    """
    team = frozenset(Membership.objects.filter(user=user).values_list("project__slug", flat=True))
    selected = (names[0], *position) if position and names else None
    return draw_nodes(
        gpus().filter(node__name__in=names),
        slice_holders_on_nodes(user, names),
        MapViewer(user.username, team, selected),
    )


def _card(row: Node, node_map: NodeMap | None, topology: NodeTopology) -> NodeCard:
    if node_map is None:
        return row, None, node_notes(row, ())
    node_map.brackets = numa_brackets(topology, (line.gpu.index for line in node_map.rows))
    return row, node_map, node_notes(row, (line.gpu for line in node_map.rows))


def _static_parts(topologies: Mapping[str, NodeTopology]) -> dict[str, Any]:
    """Context that does not change while the page is open."""
    return {
        "interconnects": interconnects(topologies),
        "legend": [(cls, PATTERNS.get(cls, ""), label) for cls, label in LEGEND.items()],
    }


def _selected_position(params: Mapping[str, str]) -> tuple[int, int] | None:
    """GPU index and first memory slice of the cell in the URL."""
    gpu, start = params.get("gpu", ""), params.get("at", "")
    if not (gpu.isascii() and gpu.isdigit() and start.isascii() and start.isdigit()):
        return None
    return int(gpu[:4]), int(start[:4])


def size_sentence(gpu_count: int, node_count: int) -> str:
    gpus = ngettext("%(n)s GPU", "%(n)s GPUs", gpu_count) % {"n": f"{gpu_count:,}"}
    nodes = ngettext("on %(n)s node", "on %(n)s nodes", node_count) % {"n": f"{node_count:,}"}
    return _("%(gpus)s %(nodes)s. Slices are carved within seconds of a request") % {
        "gpus": gpus,
        "nodes": nodes,
    }
