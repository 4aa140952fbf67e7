"""The cluster page's live parts: fragments over server-sent events, rung by the nodes' reports, and
looked at again in between, because samples of sensors ring nothing."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils import translation

from portal.accounts.models import User
from portal.live.listener import subscribe
from portal.web.cluster import live_parts
from portal.web.streaming import life, look, message, released, streamed

# A cluster that is busy is drawn at most, and one that is quiet at least, this often.
CLUSTER_PACE_SECONDS = 5
CLUSTER_LOOK_SECONDS = 10


async def cluster_stream(request: HttpRequest) -> HttpResponseBase:
    user = await request.auser()
    await released()
    if isinstance(user, AnonymousUser):
        return HttpResponse(status=401)
    language = getattr(request, "LANGUAGE_CODE", "en")
    return streamed(_cluster_events(user, language, request.GET.dict()))


async def _cluster_events(
    user: User, language: str, given: Mapping[str, str] | None = None
) -> AsyncIterator[str]:
    """The parts of the page of this URL now, and again after a report of a node or a while."""
    end = time.monotonic() + life()
    with subscribe("cluster") as bell:
        last = ""
        while time.monotonic() < end and not bell.is_closing:
            html = await look(_look_at_cluster, user, language, given or {})
            yield message("beat") if html == last else message("page", html)
            last = html
            if await bell.wait(CLUSTER_LOOK_SECONDS) and not bell.is_closing:
                await asyncio.sleep(CLUSTER_PACE_SECONDS)


def _look_at_cluster(user: User, language: str, given: Mapping[str, str]) -> str:
    with translation.override(language):
        return render_to_string("web/cluster_live.html", live_parts(user, given))
