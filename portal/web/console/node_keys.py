"""The key of a node: revoke it, after a page that says what this means; unfreeze it."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from portal.allocations.draining import jobs_on_node
from portal.inventory.revocation import node_revoke, node_unfreeze
from portal.web.console.access import platform_admins_only
from portal.web.console.nodes import active_node_or_404
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    node = active_node_or_404(name)
    if request.method == "POST":
        with refusals_as_messages(request):
            node_revoke(node=node, actor=request.user.username)
            messages.success(request, _("The key of %(node)s is revoked") % {"node": node.name})
        return redirect("web:node_list")
    context = {"node": node, "load": jobs_on_node(node)}
    return render(request, "web/console/revoke.html", context)


@platform_admins_only
@require_POST
def unfreeze(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    node = active_node_or_404(name)
    with refusals_as_messages(request):
        node_unfreeze(node=node, actor=request.user.username)
        messages.success(request, _("%(node)s may connect again") % {"node": node.name})
    return redirect("web:node_list")
