"""One node: added with a command to paste, followed live from there to its first job."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.accounts.models import User
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.event_stream import stream_user
from portal.inventory.models import Node
from portal.inventory.services import node_add, node_invite, node_withdraw
from portal.web.console.access import platform_admins_only
from portal.web.console.join_command import is_plain_http, join_command
from portal.web.console.node_progress import node_context
from portal.web.console.nodes import active_node_or_404
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages
from portal.web.page_parts import PageParts, StreamPace, parts_stream
from portal.web.wording.messages import refusal_text

PACE = StreamPace(min_seconds=1, max_seconds=10)
MAX_PATH = 200


@dataclass(frozen=True, slots=True)
class NewNode:
    """What an admin entered about a new node, and what is wrong with it."""

    name: str = ""
    ca_file: str = ""
    errors: dict[str, str] | None = None
    # The name is that of a node, whose page can make a new token.
    taken: str = ""


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_variables("token")
def add(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Add a node; the answer shows its command, with the token in it, this once."""
    if request.method != "POST":
        return _form(request, NewNode())
    name, ca_file, wrong = _read_form(request)
    if wrong:
        return _form(request, NewNode(name, ca_file, {"ca_file": wrong}), status=400)
    try:
        node, token = node_add(name=name, actor=request.user.username)
    except Refused as refused:
        taken = name if refused.code == ErrorCode.NAME_TAKEN else ""
        form = NewNode(name, ca_file, {"name": refusal_text(refused)}, taken)
        return _form(request, form, status=refused.status)
    return _page(request, node, token=token, ca_file=ca_file)


@platform_admins_only
@require_safe
@never_cache
def node(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    return _page(request, active_node_or_404(name))


@platform_admins_only
@require_POST
@never_cache
@sensitive_variables("token")
def join_token(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    """A new join token; earlier ones that were not used end."""
    row = active_node_or_404(name)
    _name, ca_file, wrong = _read_form(request)
    if wrong:
        messages.error(request, wrong)
        return redirect("web:node", row.name)
    token = node_invite(node=row, actor=request.user.username)
    return _page(request, row, token=token, ca_file=ca_file)


@platform_admins_only
@require_POST
def withdraw(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    """Take back a node that no machine has joined as; nothing is lost by that."""
    row = active_node_or_404(name)
    with refusals_as_messages(request):
        node_withdraw(node=row, actor=request.user.username)
        messages.success(request, _("%(node)s is withdrawn") % {"node": name})
        return redirect("web:node_list")
    return redirect("web:node", name)


async def node_stream(request: HttpRequest, name: str) -> HttpResponseBase:
    user = await stream_user(request)
    if user is not None and not user.is_platform_admin:
        return HttpResponse(status=404)
    return await parts_stream(
        request,
        partial(live_node, name=name),
        share_key=("node", name),
        pace=PACE,
        bells=("cluster",),
    )


def live_node(user: User, name: str) -> PageParts:
    """The parts of a node's page that change; none for others than platform admins."""
    row = Node.objects.active().filter(name=name).first() if user.is_platform_admin else None
    if row is None:
        return PageParts("")
    html = render_to_string("web/console/node_live.html", node_context(row) | {"user": user})
    return PageParts(html, (f"node:{row.pk}", "cluster"))


def _read_form(request: HttpRequest) -> tuple[str, str, str]:
    """Name, authority file, and what is wrong with the latter."""
    name = request.POST.get("name", "").strip().lower()
    ca_file = request.POST.get("ca_file", "").strip()
    is_path = ca_file.startswith("/") and ca_file.isprintable() and len(ca_file) <= MAX_PATH
    if ca_file and not is_path:
        return name, ca_file, _("Enter the whole path of a file on the node, such as /etc/ca.pem")
    return name, ca_file, ""


def _form(request: HttpRequest, form: NewNode, status: int = 200) -> HttpResponse:
    context = {"form": form, "errors": form.errors or {}}
    return render(request, "web/console/node_add.html", context, status=status)


def _page(
    request: AuthenticatedHttpRequest, row: Node, *, token: str = "", ca_file: str = ""
) -> HttpResponse:
    context: dict[str, Any] = node_context(row)
    if token:
        portal = request.build_absolute_uri("/").rstrip("/")
        command = join_command(portal=portal, node=row.name, token=token, ca_file=ca_file)
        context |= {"command": command, "is_plain_http": is_plain_http(portal)}
    return render(request, "web/console/node.html", context)
