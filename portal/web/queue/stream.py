"""The live parts of the Queue page. It follows the bells of the jobs it shows and reads again in
between, because a new job rings only its own bell."""

from functools import partial

from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from portal.accounts.models import User
from portal.accounts.selectors import memberships_of
from portal.live.bell import QUEUE
from portal.web.page_parts import PageParts, StreamPace, parts_stream
from portal.web.queue.context import queue_context

PACE = StreamPace(min_seconds=2, max_seconds=15)


async def queue_stream(request: HttpRequest) -> HttpResponseBase:
    read = partial(live_queue, query=request.GET)
    return await parts_stream(
        request, read, share_key=("queue", request.GET.urlencode()), pace=PACE, bells=(QUEUE,)
    )


def live_queue(user: User, query: QueryDict) -> PageParts:
    context = queue_context(user, query, memberships_of(user))
    html = render_to_string("web/queue/live.html", context | {"user": user})
    return PageParts(html, (QUEUE, *(f"job:{key}" for key in context["keys"])))
