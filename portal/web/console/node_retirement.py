"""A node leaves for good, after a page that says what this means."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from portal.allocations.draining import jobs_on_node
from portal.allocations.retirement import node_retire
from portal.web.console.access import platform_admins_only
from portal.web.console.nodes import active_node_or_404
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def retire(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    node = active_node_or_404(name)
    if request.method == "POST":
        with refusals_as_messages(request):
            node_retire(node=node, actor=request.user.username)
            messages.success(request, _("%(node)s is retired") % {"node": node.name})
            return redirect("web:node_list")
        return redirect("web:node_retire", node.name)
    context = {"node": node, "load": jobs_on_node(node)}
    return render(request, "web/console/node_retire.html", context)
