"""The cluster: every GPU drawn as it is, and the same as a table."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from portal.accounts.models import User
from portal.inventory.models import Node
from portal.inventory.selectors import nodes
from portal.inventory.telemetry import readings
from portal.web.block import PATTERNS
from portal.web.drawing import NodeMap
from portal.web.health import Note, notes
from portal.web.joined import joined_nodes
from portal.web.person import person
from portal.web.reading import cluster_maps
from portal.web.sensors import sensor_rows
from scheduler.core.states import NodeStatus

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


@login_required
def cluster(request: HttpRequest) -> HttpResponse:
    context = live_parts(person(request))
    context |= {
        "joined": joined_nodes(node for node, _map, _notes in context["rows"]),
        "legend": [(cls, PATTERNS.get(cls, ""), word) for cls, word in LEGEND.items()],
    }
    return render(request, "web/cluster.html", context)


def live_parts(user: User) -> dict[str, Any]:
    """What changes while one looks at the page: maps, what is wrong, sensors, the table."""
    maps = {found.name: found for found in cluster_maps(user)}
    known = [node for node in nodes() if node.status != NodeStatus.RETIRED]
    rows = [_row(node, maps.get(node.name)) for node in known]
    shown = [found for _node, found, _notes in rows if found]
    return {
        "rows": rows,
        "headline": headline(shown),
        "sentence": sentence(shown, len(rows)),
        "sensors": sensor_rows(readings(user)),
    }


def _row(node: Node, found: NodeMap | None) -> tuple[Node, NodeMap | None, list[Note]]:
    return node, found, notes(node, (row.gpu for row in found.rows) if found else ())


def headline(maps: list[NodeMap]) -> str:
    """The page's answer: what is free now."""
    free, idle = sum(found.free for found in maps), sum(found.idle for found in maps)
    gpus = ngettext("%(n)s GPU", "%(n)s GPUs", free) % {"n": free}
    slices = ngettext("%(n)s slice", "%(n)s slices", idle) % {"n": idle}
    if free and idle:
        return _("%(gpus)s and %(slices)s are free now") % {"gpus": gpus, "slices": slices}
    if free or idle:
        return _("%(what)s free now") % {"what": gpus if free else slices}
    return _("Nothing is free now")


def sentence(maps: list[NodeMap], node_count: int) -> str:
    count = sum(len(found.rows) for found in maps)
    gpus = ngettext("%(n)s GPU", "%(n)s GPUs", count) % {"n": count}
    on = ngettext("on %(n)s node", "on %(n)s nodes", node_count) % {"n": node_count}
    return _("%(gpus)s %(nodes)s. Free slices are carved in seconds for whoever asks") % {
        "gpus": gpus,
        "nodes": on,
    }
