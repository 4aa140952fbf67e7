"""Nodes for platform admins: problems, cordon, drain and the partition preview."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from portal.allocations.draining import jobs_on_node, node_drain
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import SILENT_NODE_STATUSES, Gpu, Node
from portal.inventory.selectors import nodes
from portal.inventory.services import node_cordon, node_uncordon
from portal.inventory.versions import node_version
from portal.jobs.models import Replica
from portal.planning.partition_preview import partition_preview
from portal.web.console.access import platform_admins_only
from portal.web.console.partition_drawing import draw_changes
from portal.web.console.planner import should_run_planner
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages
from portal.web.wording.messages import refusal_text
from scheduler.core.model.states import GpuHealth, NodeStatus

STATES = {
    "unseen": gettext_lazy("Never seen"),
    "away": gettext_lazy("Unreachable"),
    "blocked": gettext_lazy("Blocked"),
    "cordoned": gettext_lazy("Cordoned"),
    "holding": gettext_lazy("Holding back"),
    "faulted": gettext_lazy("With a GPU out of service"),
    "key": gettext_lazy("Key frozen or revoked"),
}
PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class NodeRow:
    node: Node
    # Number of replicas that have not ended.
    running: int
    # Each GPU that is out of service, with the reason.
    faults: tuple[str, ...]


@platform_admins_only
def node_list(request: HttpRequest) -> HttpResponse:
    state = request.GET.get("state", "")
    matching = _in_state(nodes().exclude(status=NodeStatus.RETIRED), state)
    matching = matching.defer("desired", "topology")
    if name := request.GET.get("q", "").strip()[:64]:
        matching = matching.filter(name__icontains=name)
    page = Paginator(matching, PAGE_SIZE).get_page(request.GET.get("page"))
    live = Replica.objects.live().order_by()
    live = live.filter(node_id__in=[n.pk for n in page])
    running = dict(live.values_list("node_id").annotate(n=Count("id")))
    faults: dict[object, list[str]] = {}
    faulted = Gpu.objects.filter(node_id__in=[n.pk for n in page]).exclude(health=GpuHealth.OK)
    for gpu in faulted.order_by("node_id", "index"):
        reason = gpu.health_reason or gpu.health
        faults.setdefault(gpu.node_id, []).append(f"GPU {gpu.index}: {reason}")
    rows = [NodeRow(n, running.get(n.pk, 0), tuple(faults.get(n.pk, ()))) for n in page]
    count = page.paginator.count
    context = {
        "rows": rows,
        "page": page,
        "q": name,
        "state": state if state in STATES else "",
        "states": STATES.items(),
        "headline": ngettext("%(n)s node", "%(n)s nodes", count) % {"n": count},
    }
    return render(request, "web/console/nodes.html", context)


@platform_admins_only
@require_POST
def uncordon(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    node = active_node_or_404(name)
    with refusals_as_messages(request):
        node_uncordon(node=node, actor=request.user.username)
        messages.success(request, _("%(node)s accepts work again") % {"node": node.name})
    return redirect("web:node_list")


@platform_admins_only
def drain(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    """Cordon the node; then stop its jobs, each of which has to be ticked by name."""
    node, reason, error, status = active_node_or_404(name), "", "", 200
    if request.method == "POST":
        reason = request.POST.get("reason", "")[:200]
        stop = request.POST.getlist("stop")
        try:
            if request.POST.get("step") == "stop":
                return _stop_jobs(request, node, stop)
            _require_current(request, node)
            node_cordon(node=node, reason=reason, actor=request.user.username)
            return redirect("web:drain", node.name)
        except Refused as refused:
            error, status = refusal_text(refused), refused.status if refused.status == 412 else 400
            node = active_node_or_404(name)
    load = jobs_on_node(node)
    context = {
        "node": node,
        "load": load,
        "stoppable": [row for row in load if row.job.status != "stopping"],
        "reason": reason,
        "error": error,
        "is_stale": status == 412,
        "version": node_version(node),
        "headline": _headline(node, len(load)),
    }
    return render(request, "web/console/drain.html", context, status=status)


@platform_admins_only
def preview(request: HttpRequest, name: str) -> HttpResponse:
    node = active_node_or_404(name)
    context: dict[str, Any] = {"node": node, "has_planner_result": should_run_planner(request)}
    if context["has_planner_result"]:
        result = partition_preview(node=node.name)
        changes = draw_changes(result.changes)
        context |= {"changes": changes, "is_prewarm_on": result.is_prewarm_on}
    return render(request, "web/console/preview.html", context)


def _require_current(request: HttpRequest, node: Node) -> None:
    """Raise Refused(version_stale) if the node has changed since the page was read."""
    if request.POST.get("version") not in (None, node_version(node)):
        raise Refused(ErrorCode.VERSION_STALE, _("This has changed since you opened it"))


def _stop_jobs(request: AuthenticatedHttpRequest, node: Node, stop: list[str]) -> HttpResponse:
    if not stop:
        sentence = _("Tick each job to stop, or let the jobs end by themselves")
        raise Refused(ErrorCode.NONE_CHOSEN, sentence, "stop")
    stopped = node_drain(node=node, actor=request.user, reason=node.cordon_reason, stop=stop)
    messages.success(request, _("Stopping: %(jobs)s") % {"jobs": ", ".join(stopped)})
    return redirect("web:drain", node.name)


def _headline(node: Node, count: int) -> str:
    words = {"node": node.name, "n": count}
    if not count:
        return _("Nothing runs on %(node)s") % words
    return ngettext("%(n)s job runs on %(node)s", "%(n)s jobs run on %(node)s", count) % words


def active_node_or_404(name: str) -> Node:
    node = Node.objects.filter(name=name).exclude(status=NodeStatus.RETIRED).first()
    if node is None:
        raise Http404
    return node


def _in_state(rows: QuerySet[Node], state: str) -> QuerySet[Node]:
    if state == "unseen":
        return rows.filter(last_seen_at=None)
    if state == "away":
        return rows.filter(status__in=SILENT_NODE_STATUSES)
    if state == "blocked":
        return rows.filter(facts__has_key="blocks").exclude(facts__blocks=[])
    if state == "cordoned":
        return rows.filter(schedulable=False)
    if state == "faulted":
        faulted = Gpu.objects.filter(~Q(health=GpuHealth.OK)).values("node_id")
        return rows.filter(pk__in=faulted)
    if state == "holding":
        return rows.exclude(holding_since=None)
    if state == "key":
        return rows.exclude(frozen_at=None, revoked_at=None)
    return rows
