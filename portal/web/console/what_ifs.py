"""What-ifs: a form, a page that follows the replay, and its outcome in words and bars."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.accounts.models import Project, User
from portal.errors import Refused
from portal.event_stream import stream_user
from portal.inventory.models import Gpu, Node
from portal.web.console.access import platform_admins_only
from portal.web.console.what_if_form import WhatIfForm, change_text
from portal.web.console.what_if_result import what_if_result
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages
from portal.web.page_parts import PageParts, StreamPace, parts_stream
from portal.web.wording.labels import Badge
from portal.web.wording.messages import message_text, refusal_text
from portal.what_if.models import WhatIf, WhatIfStatus
from portal.what_if.selectors import what_if_visible, what_ifs_of
from portal.what_if.services import what_if_cancel, what_if_create

# Progress is written every 2 s, and rings no bell.
PACE = StreamPace(min_seconds=2, max_seconds=3)
MAX_LISTED = 20
MODES = ("whole", "mig", "mps")
BADGES = {
    WhatIfStatus.REQUESTED: ("wait", "clock"),
    WhatIfStatus.RUNNING: ("move", "play"),
    WhatIfStatus.DONE: ("ok", "check"),
    WhatIfStatus.FAILED: ("bad", "x"),
    WhatIfStatus.CANCELLED: ("wait", "stop"),
}


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def what_ifs(request: AuthenticatedHttpRequest) -> HttpResponse:
    """The form with the latest what-ifs; a post starts one. `policy` in the address fills it in."""
    if request.method != "POST":
        return _page(request, WhatIfForm(_prefilled(request.GET)))
    form = WhatIfForm(request.POST.dict())
    form.read()
    if form.errors:
        return _page(request, form, status=400)
    try:
        changes = [change for _name, change in form.changes]
        row = what_if_create(user=request.user, days=form.days, changes=changes)
    except Refused as refused:
        form.refuse(refused.field, refusal_text(refused))
        return _page(request, form, status=refused.status)
    return redirect("web:what_if", row.pk)


@platform_admins_only
@require_safe
def what_if(request: AuthenticatedHttpRequest, number: int) -> HttpResponse:
    context = what_if_context(_row_or_404(request.user, number))
    return render(request, "web/console/what_if.html", context)


@platform_admins_only
@require_POST
def cancel(request: AuthenticatedHttpRequest, number: int) -> HttpResponse:
    row = _row_or_404(request.user, number)
    with refusals_as_messages(request):
        what_if_cancel(user=request.user, row=row)
        messages.success(request, _("Cancelled: its process stops within seconds"))
    return redirect("web:what_if", number)


async def what_if_stream(request: HttpRequest, number: int) -> HttpResponseBase:
    user = await stream_user(request)
    if user is not None and not user.is_platform_admin:
        return HttpResponse(status=404)
    read = partial(live_what_if, number=number)
    return await parts_stream(request, read, share_key=("what-if", number), pace=PACE)


def live_what_if(user: User, number: int) -> PageParts:
    """The parts of a what-if's page; none for others than platform admins."""
    row = WhatIf.objects.filter(pk=number).first() if user.is_platform_admin else None
    if row is None:
        return PageParts("")
    return PageParts(render_to_string("web/console/what_if_live.html", what_if_context(row)))


def what_if_context(row: WhatIf) -> dict[str, Any]:
    status = WhatIfStatus(row.shown_status)
    cls, icon = BADGES[status]
    message = row.shown_message
    return {
        "what_if": row,
        "sentence": message_text(message) if message else "",
        "badge": Badge(cls, icon, status_word(status)),
        "is_open": status in (WhatIfStatus.REQUESTED, WhatIfStatus.RUNNING),
        "is_running": status == WhatIfStatus.RUNNING,
        "changes": change_words(row),
        "result": what_if_result(row.outcome) if row.outcome else None,
    }


def status_word(status: WhatIfStatus) -> str:
    words = {
        WhatIfStatus.REQUESTED: _("Waits for its turn"),
        WhatIfStatus.RUNNING: _("Replays"),
        WhatIfStatus.DONE: _("Done"),
        WhatIfStatus.FAILED: _("Failed"),
        WhatIfStatus.CANCELLED: _("Cancelled"),
    }
    return words[status]


def change_words(row: WhatIf) -> list[str]:
    return [change_text(change) for change in row.changes]


def _prefilled(query: QueryDict) -> dict[str, str]:
    """The page of the policy asks about its unsaved options: `policy=backfill=conservative`."""
    lines = [f"policy {words}" for words in query.getlist("policy")[:20]]
    return {name: str(value) for name, value in query.items()} | {"lines": "\n".join(lines)}


def _row_or_404(user: User, number: int) -> WhatIf:
    try:
        return what_if_visible(user, str(number))
    except Refused as refused:
        raise Http404 from refused


def _page(request: AuthenticatedHttpRequest, form: WhatIfForm, status: int = 200) -> HttpResponse:
    rows = list(what_ifs_of(request.user).defer("outcome")[:MAX_LISTED])
    context = {
        "form": form,
        "values": form.values,
        "errors": form.errors,
        "projects": Project.objects.filter(archived=False).order_by("slug"),
        "nodes": Node.objects.active().order_by("name").values_list("name", flat=True)[:2_000],
        "models": Gpu.objects.order_by("board").values_list("board", flat=True).distinct(),
        "modes": MODES,
        "rows": [
            (row, Badge(*BADGES[state], status_word(state)), change_words(row))
            for row in rows
            for state in (WhatIfStatus(row.shown_status),)
        ],
    }
    return render(request, "web/console/what_ifs.html", context, status=status)
