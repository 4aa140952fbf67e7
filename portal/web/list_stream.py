"""The live parts of the Jobs and the Queue page: fragments over server-sent events.

Each follows the bells of the jobs that it shows, and looks again in between: a new job rings for
itself only. No database connection is held while waiting.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils import translation

from portal.accounts.models import User
from portal.jobs.paging import SIZE
from portal.jobs.selectors import LABEL, jobs_visible_to
from portal.live.listener import subscribe
from portal.web.job_list import filters_of
from portal.web.queue_page import queue_parts
from portal.web.streaming import life, look, message, released, streamed

# What rings is shown at most, and what is quiet looked at again at least, this often.
PACE_SECONDS = 2
LOOK_SECONDS = 15
MOST_NEWS = 99

# The keys of jobs that are shown, and the fragments.
Look = Callable[[User, QueryDict], tuple[list[int], str]]


async def jobs_stream(request: HttpRequest) -> HttpResponseBase:
    return await _stream(request, _look_at_jobs)


async def queue_stream(request: HttpRequest) -> HttpResponseBase:
    return await _stream(request, _look_at_queue)


async def _stream(request: HttpRequest, read: Look) -> HttpResponseBase:
    user = await request.auser()
    await released()
    if isinstance(user, AnonymousUser):
        return HttpResponse(status=401)
    language = getattr(request, "LANGUAGE_CODE", "en")
    return streamed(_events(user, request.GET, language, read))


async def _events(user: User, query: QueryDict, language: str, read: Look) -> AsyncIterator[str]:
    """The parts now, and again after a bell or a while; a beat where nothing is another one. Each
    is whole, so who comes back needs none of those it missed."""
    end = time.monotonic() + life()
    keys: list[int] = []
    last = ""
    while time.monotonic() < end:
        with subscribe(*(f"job:{pk}" for pk in keys)) as bell:
            if bell.is_closing:
                return
            keys, html = await look(_in_language, language, user, query, read)
            yield message("beat") if html == last else message("page", html)
            last = html
            if await bell.wait(LOOK_SECONDS) and not bell.is_closing:
                await asyncio.sleep(PACE_SECONDS)


def _in_language(language: str, user: User, query: QueryDict, read: Look) -> tuple[list[int], str]:
    with translation.override(language):
        return read(user, query)


def _look_at_jobs(user: User, query: QueryDict) -> tuple[list[int], str]:
    """The rows that stand on the page, which it names, and how many came since."""
    keys = _keys(query.getlist("row"))
    rows = list(jobs_visible_to(user).filter(pk__in=keys))
    filters = filters_of(user, query)
    newer = filters.qs.filter(pk__gt=max(keys, default=0))
    context = {
        "jobs": rows,
        "count": newer[:MOST_NEWS].count() if filters.sorting == ("-id",) else 0,
        "query": _kept(query),
    }
    return keys, render_to_string("web/jobs_live.html", context)


def _kept(query: QueryDict) -> str:
    kept = query.copy()
    kept.pop("row", None)
    return kept.urlencode()


def _keys(refs: Iterable[str]) -> list[int]:
    return [int(match[1]) for ref in refs if (match := LABEL.fullmatch(ref))][:SIZE]


def _look_at_queue(user: User, query: QueryDict) -> tuple[list[int], str]:
    parts = queue_parts(user, query)
    return parts["keys"], render_to_string("web/queue_live.html", parts | {"user": user})
