"""The number of free devices on each card, live while the form is being filled in.

Node reports ring the bell. When each card could start comes with the preview.
"""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from portal.accounts.models import User
from portal.web.page_parts import PageParts, StreamPace, parts_stream
from portal.web.request.cards import cards_now

PACE = StreamPace(min_seconds=5, max_seconds=15)
BELL = "cluster"


async def request_stream(request: HttpRequest) -> HttpResponseBase:
    return await parts_stream(request, live_cards, share_key="request", pace=PACE, bells=(BELL,))


def live_cards(user: User) -> PageParts:
    context = {"request_cards": cards_now(user)}
    return PageParts(render_to_string("web/request/cards_live.html", context), (BELL,))
