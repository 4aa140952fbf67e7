"""Disputed claims, for platform admins to decide: a node reports a GPU that another one holds."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from portal.allocations.disputes import disputed_claim_accept, disputed_claim_dismiss
from portal.inventory.selectors import disputed_claims
from portal.web.console.access import platform_admins_only
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages

MAX_ROWS = 200


@platform_admins_only
@require_safe
def disputes(request: HttpRequest) -> HttpResponse:
    rows = list(disputed_claims()[:MAX_ROWS])
    return render(request, "web/console/disputes.html", {"rows": rows})


@platform_admins_only
@require_POST
def dispute(request: AuthenticatedHttpRequest, claim: int) -> HttpResponse:
    """Decide one: `decision` is `accept` or `dismiss`."""
    row = disputed_claims().filter(pk=claim).first()
    if row is None:
        raise Http404
    actor, names = request.user.username, {"gpu": row.gpu.uuid}
    names |= {"holder": row.gpu.node.name, "claimant": row.claimant.name}
    with refusals_as_messages(request):
        if request.POST.get("decision") == "accept":
            disputed_claim_accept(claim=row, actor=actor)
            messages.success(request, _("GPU %(gpu)s now belongs to %(claimant)s") % names)
        else:
            disputed_claim_dismiss(claim=row, actor=actor)
            messages.success(request, _("GPU %(gpu)s stays with %(holder)s") % names)
    return redirect("web:disputes")
