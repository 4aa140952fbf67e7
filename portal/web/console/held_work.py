"""What a node that holds back would end, and the decision of an admin to let it."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from portal.allocations.holding import held_replicas, node_allow_mass_removal
from portal.web.console.access import platform_admins_only
from portal.web.console.nodes import active_node_or_404
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def held_work(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    node = active_node_or_404(name)
    if request.method == "POST":
        with refusals_as_messages(request):
            shown = request.POST.getlist("replica")
            node_allow_mass_removal(node=node, actor=request.user.username, shown=shown)
            sentence = _("%(node)s ends what the portal does not know")
            messages.success(request, sentence % {"node": node.name})
            return redirect("web:node_list")
        return redirect("web:held_work", node.name)
    context = {"node": node, "replicas": held_replicas(node)}
    return render(request, "web/console/held_work.html", context)
