"""How many of each card are free, while somebody fills in the request form: fragments over
server-sent events, rung by the nodes' reports. When it could start is told with the answer."""

import asyncio
import time
from collections.abc import AsyncIterator

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils import translation

from portal.accounts.models import User
from portal.live.listener import subscribe
from portal.web.stock import cards_now
from portal.web.streaming import life, look, message, released, streamed

# A cluster that is busy is counted at most, and one that is quiet at least, this often.
PACE_SECONDS = 5
LOOK_SECONDS = 15


async def request_stream(request: HttpRequest) -> HttpResponseBase:
    user = await request.auser()
    await released()
    if isinstance(user, AnonymousUser):
        return HttpResponse(status=401)
    return streamed(_events(user, getattr(request, "LANGUAGE_CODE", "en")))


async def _events(user: User, language: str) -> AsyncIterator[str]:
    end = time.monotonic() + life()
    with subscribe("cluster") as bell:
        last = ""
        while time.monotonic() < end and not bell.is_closing:
            html = await look(live_cards, user, language)
            yield message("beat") if html == last else message("page", html)
            last = html
            if await bell.wait(LOOK_SECONDS) and not bell.is_closing:
                await asyncio.sleep(PACE_SECONDS)


def live_cards(user: User, language: str) -> str:
    """The parts that are counted anew."""
    with translation.override(language):
        return render_to_string("web/request/live.html", {"stock": cards_now(user)})
