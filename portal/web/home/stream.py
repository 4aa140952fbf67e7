"""The live parts of Home. It follows the bells of the jobs it shows and reads again in between,
because a new job rings only its own bell."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse

from portal.accounts.models import User
from portal.accounts.selectors import memberships_of
from portal.live.bell import QUEUE
from portal.web.home.context import MAX_ROWS, home_context
from portal.web.page_parts import PageParts, StreamPace, parts_stream
from portal.web.project_choice import own_choice

# Home asks more of the database than a list, and nobody acts on it within seconds.
PACE = StreamPace(min_seconds=5, max_seconds=30)


async def home_stream(request: HttpRequest) -> HttpResponseBase:
    chosen = request.GET.get("project", "")
    shown = [row for row in request.GET.getlist("row") if row.isdecimal()][: 2 * MAX_ROWS]
    return await parts_stream(
        request,
        partial(live_home, chosen=chosen),
        share_key=("home", chosen),
        pace=PACE,
        bells=(QUEUE, *(f"job:{int(row[:18])}" for row in shown)),
    )


def stream_address(context: Mapping[str, Any]) -> str:
    """`context`: of Home."""
    query = [("project", context["scope"].chosen), *(("row", pk) for pk in _shown(context))]
    return f"{reverse('web:home_stream')}?{urlencode(query)}"


def live_home(user: User, chosen: str) -> PageParts:
    """`chosen`: the slug of a project, or empty; one that the user has left counts as empty."""
    context = home_context(user, own_choice(memberships_of(user), chosen))
    html = render_to_string("web/home/live.html", context | {"user": user})
    queue = (QUEUE,) if context["waiting"] else ()
    return PageParts(html, (*queue, *(f"job:{key}" for key in _shown(context))))


def _shown(context: Mapping[str, Any]) -> list[int]:
    """Ids of the jobs in rows that can change."""
    return [row.job.pk for name in ("running", "waiting") for row in context[name]]
