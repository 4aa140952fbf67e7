"""The cluster page's live parts: fragments over server-sent events, rung by the nodes' reports, and
looked at again in between, because samples of sensors ring nothing."""

from collections.abc import AsyncIterator, Mapping
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from portal.accounts.models import User
from portal.web.cluster.views import live_parts
from portal.web.streaming.event_stream import reader_of, seen_by, streamed
from portal.web.streaming.page_parts import Pace, Parts, part_events

PACE = Pace(busy=5, quiet=10)
BELL = "cluster"


async def cluster_stream(request: HttpRequest) -> HttpResponseBase:
    user = await reader_of(request)
    if user is None:
        return HttpResponse(status=401)
    language = getattr(request, "LANGUAGE_CODE", "en")
    return streamed(cluster_events(user, language, request.GET.dict(), seen_by(request)))


def cluster_events(
    user: User, language: str, given: Mapping[str, str], seen: str = ""
) -> AsyncIterator[str]:
    """The parts of the page of this address now, and again after a node's report or a while."""
    return part_events(
        user,
        partial(_look_at_cluster, given=given),
        same=(BELL, *sorted(given.items())),
        language=language,
        pace=PACE,
        bells=(BELL,),
        seen=seen,
    )


def _look_at_cluster(user: User, given: Mapping[str, str]) -> Parts:
    return Parts(render_to_string("web/cluster_live.html", live_parts(user, given)), (BELL,))
