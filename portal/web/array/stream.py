"""The live parts of an array's page. It follows the bells of the members on it and reads again in
between, because the others change its counts."""

from functools import partial

from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from portal.accounts.models import User
from portal.arrays.selectors import array_visible
from portal.errors import Refused
from portal.live.bell import QUEUE
from portal.web.array.context import array_context
from portal.web.page_parts import PageParts, StreamPace, parts_stream

PACE = StreamPace(min_seconds=2, max_seconds=15)


async def array_stream(request: HttpRequest, array: str) -> HttpResponseBase:
    return await parts_stream(
        request,
        partial(live_array, ref=array, query=request.GET),
        share_key=("array", array, request.GET.urlencode()),
        pace=PACE,
        bells=(QUEUE,),
    )


def live_array(user: User, ref: str, query: QueryDict) -> PageParts:
    """None of an array that the user may not see."""
    try:
        array = array_visible(user, ref)
    except Refused:
        return PageParts("")
    context = array_context(user, array, query)
    html = render_to_string("web/array/live.html", context | {"user": user})
    bells = tuple(f"job:{row.job.pk}" for row in context["rows"])
    return PageParts(html, (QUEUE, *bells) if context["counts"].waiting else bells)
