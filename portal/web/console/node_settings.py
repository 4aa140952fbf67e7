"""What the planner is told about a node: its labels and taints, and which GPUs are pinned."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from portal.errors import Refused
from portal.inventory.models import Gpu, Node
from portal.inventory.node_settings import gpu_pin, gpu_unpin, read_labels, read_taints
from portal.inventory.selectors import gpus
from portal.inventory.versions import node_update, node_version
from portal.planning.node_settings_effect import NodeSettingsEffect, node_settings_effect
from portal.web.console.access import platform_admins_only
from portal.web.console.nodes import active_node_or_404
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages
from portal.web.wording.messages import refusal_text

MAX_TYPED = 5_000
MAX_REASON = 200


@dataclass(slots=True)
class NodeSettingsForm:
    """What was typed, and what is wrong with it."""

    labels: str
    taints: str
    taint_reason: str
    version: str
    errors: dict[str, str] = field(default_factory=dict)


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    """Step `preview` shows what labels and taints would do, step `save` sets them."""
    node = active_node_or_404(name)
    if request.method != "POST":
        return _page(request, node, _stored(node))
    form = NodeSettingsForm(
        labels=request.POST.get("labels", "")[:MAX_TYPED],
        taints=request.POST.get("taints", "")[:MAX_TYPED],
        taint_reason=request.POST.get("taint_reason", "").strip()[:MAX_REASON],
        version=request.POST.get("version", ""),
    )
    try:
        labels, taints = read_labels(_words(form.labels)), read_taints(_words(form.taints))
        if request.POST.get("step") != "save":
            effect = node_settings_effect(node, labels=labels, taints=taints)
            return _page(request, node, form, effect)
        changes = {"labels": labels, "taints": taints, "taint_reason": form.taint_reason}
        changed = _changed(node, changes)
        node_update(node=node, changes=changed, actor=request.user.username, version=form.version)
    except Refused as refused:
        place = "taint_reason" if refused.field == "reason" else refused.field or "labels"
        form.errors[place] = refusal_text(refused)
        if refused.status == 412:
            node = active_node_or_404(name)
            form.version = node_version(node)
        return _page(request, node, form, status=refused.status)
    messages.success(request, _("Saved. It counts from the next planning pass on"))
    return redirect("web:node", node.name)


@platform_admins_only
@require_POST
def pin(request: AuthenticatedHttpRequest, name: str, index: int) -> HttpResponse:
    """Pin a GPU (`pinned` is 1) with a reason, or let the planner partition it again."""
    node = active_node_or_404(name)
    gpu = Gpu.objects.filter(node=node, index=index).first()
    if gpu is None:
        raise Http404
    words = {"node": node.name, "index": index}
    actor = request.user.username
    with refusals_as_messages(request):
        if request.POST.get("pinned") == "1":
            gpu_pin(gpu=gpu, reason=request.POST.get("reason", "")[:MAX_REASON], actor=actor)
            messages.success(request, _("GPU %(index)s of %(node)s is pinned") % words)
        else:
            gpu_unpin(gpu=gpu, actor=actor)
            messages.success(request, _("GPU %(index)s of %(node)s may be partitioned") % words)
    return redirect("web:node_settings", node.name)


def _changed(node: Node, values: Mapping[str, object]) -> dict[str, object]:
    """Only what differs, so that the audit trail has no lines without a change. Taints go with
    their reason."""
    changed = {name: value for name, value in values.items() if value != getattr(node, name)}
    if "taint_reason" in changed or "taints" in changed:
        changed |= {name: values[name] for name in ("taints", "taint_reason")}
    return changed


def _words(text: str) -> list[str]:
    """Separated by spaces, commas or lines."""
    return text.replace(",", " ").split()


def _stored(node: Node) -> NodeSettingsForm:
    labels, taints = "\n".join(node.labels), "\n".join(node.taints)
    return NodeSettingsForm(labels, taints, node.taint_reason, node_version(node))


def _page(
    request: HttpRequest,
    node: Node,
    form: NodeSettingsForm,
    effect: NodeSettingsEffect | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {
        "node": node,
        "form": form,
        "errors": form.errors,
        "effect": effect,
        "is_stale": status == 412,
        "gpus": gpus().filter(node=node),
    }
    return render(request, "web/console/node_settings.html", context, status=status)
