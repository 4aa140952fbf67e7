"""The live parts of the Jobs and the Queue page: fragments over server-sent events.

Each follows the bells of the jobs that it shows, and looks again in between: a new job rings for
itself only.
"""

from collections.abc import Callable, Iterable
from functools import partial

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from portal.accounts.models import User
from portal.jobs.paging import SIZE
from portal.jobs.selectors import LABEL, jobs_visible_to
from portal.web.jobs.context import filters_of
from portal.web.queue.views import queue_context
from portal.web.streaming.event_stream import event_stream_response, last_event_id, stream_user
from portal.web.streaming.page_parts import PageParts, StreamPace, part_events

PACE = StreamPace(min_seconds=2, max_seconds=15)
MAX_NEWER = 99

Look = Callable[..., PageParts]


async def jobs_stream(request: HttpRequest) -> HttpResponseBase:
    return await _stream(request, _look_at_jobs, _bells(_keys(request.GET.getlist("row"))))


async def queue_stream(request: HttpRequest) -> HttpResponseBase:
    return await _stream(request, _look_at_queue)


async def _stream(request: HttpRequest, read: Look, bells: Iterable[str] = ()) -> HttpResponseBase:
    user = await stream_user(request)
    if user is None:
        return HttpResponse(status=401)
    events = part_events(
        user,
        partial(read, query=request.GET),
        share_key=(read, request.GET.urlencode()),
        language=getattr(request, "LANGUAGE_CODE", "en"),
        pace=PACE,
        bells=bells,
        last_id=last_event_id(request),
    )
    return event_stream_response(events)


def _look_at_jobs(user: User, query: QueryDict) -> PageParts:
    """The rows that stand on the page, which it names, and how many came since."""
    keys = _keys(query.getlist("row"))
    rows = list(jobs_visible_to(user).filter(pk__in=keys))
    filters = filters_of(user, query)
    newer = filters.qs.filter(pk__gt=max(keys, default=0))
    context = {
        "jobs": rows,
        "count": newer[:MAX_NEWER].count() if filters.sorting == ("-id",) else 0,
        "query": _kept(query),
    }
    return PageParts(render_to_string("web/jobs/live.html", context), _bells(keys))


def _kept(query: QueryDict) -> str:
    kept = query.copy()
    kept.pop("row", None)
    return kept.urlencode()


def _keys(refs: Iterable[str]) -> list[int]:
    return [int(match[1]) for ref in refs if (match := LABEL.fullmatch(ref))][:SIZE]


def _bells(keys: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"job:{pk}" for pk in keys)


def _look_at_queue(user: User, query: QueryDict) -> PageParts:
    parts = queue_context(user, query)
    html = render_to_string("web/queue/live.html", parts | {"user": user})
    return PageParts(html, _bells(parts["keys"]))
