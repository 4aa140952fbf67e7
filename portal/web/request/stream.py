"""How many of each card are free, while somebody fills in the request form: fragments over
server-sent events, rung by the nodes' reports. When it could start is told with the answer."""

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from portal.accounts.models import User
from portal.web.request.cards import cards_now
from portal.web.streaming.event_stream import reader_of, seen_by, streamed
from portal.web.streaming.page_parts import Pace, Parts, part_events

PACE = Pace(busy=5, quiet=15)
BELL = "cluster"


async def request_stream(request: HttpRequest) -> HttpResponseBase:
    user = await reader_of(request)
    if user is None:
        return HttpResponse(status=401)
    events = part_events(
        user,
        live_cards,
        same="request",
        language=getattr(request, "LANGUAGE_CODE", "en"),
        pace=PACE,
        bells=(BELL,),
        seen=seen_by(request),
    )
    return streamed(events)


def live_cards(user: User) -> Parts:
    """The parts that are counted anew."""
    html = render_to_string("web/request/live.html", {"stock": cards_now(user)})
    return Parts(html, (BELL,))
