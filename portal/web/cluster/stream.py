"""Live parts of the Cluster page over server-sent events.

Node reports ring the bell. The parts are also rendered at a steady pace, because sensor samples
ring none.
"""

from collections.abc import AsyncIterator, Mapping
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from portal.accounts.models import User
from portal.event_stream import (
    event_stream_response,
    last_event_id,
    stream_owner,
    stream_user,
)
from portal.web.cluster.views import live_parts
from portal.web.page_parts import PageFace, PageParts, StreamPace, page_face, part_events

PACE = StreamPace(min_seconds=5, max_seconds=10)
BELL = "cluster"


async def cluster_stream(request: HttpRequest) -> HttpResponseBase:
    user = await stream_user(request)
    if user is None:
        return HttpResponse(status=401)
    events = cluster_events(user, page_face(request), request.GET.dict(), last_event_id(request))
    return event_stream_response(events, stream_owner(request, user))


def cluster_events(
    user: User, face: PageFace, params: Mapping[str, str], last_id: str = ""
) -> AsyncIterator[str]:
    """The parts of the page with these URL parameters: now, after each node report, and at
    PACE."""
    return part_events(
        user,
        partial(_render_parts, params=params),
        share_key=(BELL, *sorted(params.items())),
        face=face,
        pace=PACE,
        bells=(BELL,),
        last_id=last_id,
    )


def _render_parts(user: User, params: Mapping[str, str]) -> PageParts:
    return PageParts(render_to_string("web/cluster/live.html", live_parts(user, params)), (BELL,))
