"""The live parts of a page: fragments over server-sent events, rung by a bell.

A job's page follows its job. The cluster's follows the nodes' reports, and looks again in between,
because samples of sensors ring nothing.

No database connection is held while waiting: each look is one short call in a thread.
"""

import asyncio
import time
from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    StreamingHttpResponse,
)
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils import translation

from portal.accounts.models import User
from portal.errors import Refused
from portal.jobs.selectors import job_visible
from portal.live.listener import subscribe
from portal.web.cluster import live_parts
from portal.web.job_page import rank_in
from portal.web.job_story import story

HEARTBEAT_SECONDS = 15
LIFE_SECONDS = 600
# A log that pours is shown at most this often.
PACE_SECONDS = 0.3
# A cluster that is busy is drawn at most, and one that is quiet at least, this often.
CLUSTER_PACE_SECONDS = 5
CLUSTER_LOOK_SECONDS = 10


async def job_stream(request: HttpRequest, ref: str) -> HttpResponseBase:
    user = await request.auser()
    if isinstance(user, AnonymousUser):
        return HttpResponse(status=401)
    language = getattr(request, "LANGUAGE_CODE", "en")
    try:
        pk = await sync_to_async(_pk, thread_sensitive=False)(user, ref)
    except Refused as refused:
        raise Http404 from refused
    return _streamed(_events(user, ref, pk, language, rank_in(request)))


async def cluster_stream(request: HttpRequest) -> HttpResponseBase:
    user = await request.auser()
    if isinstance(user, AnonymousUser):
        return HttpResponse(status=401)
    return _streamed(_cluster_events(user, getattr(request, "LANGUAGE_CODE", "en")))


def _streamed(events: AsyncIterator[str]) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(events, content_type="text/event-stream")
    answer["Cache-Control"] = "no-store"
    answer["X-Accel-Buffering"] = "no"
    return answer


async def _cluster_events(user: User, language: str) -> AsyncIterator[str]:
    """The cluster's parts now, and again after a report of a node or a while."""
    end = time.monotonic() + LIFE_SECONDS
    look = sync_to_async(_look_at_cluster, thread_sensitive=False)
    with subscribe("cluster") as bell:
        last = ""
        while time.monotonic() < end and not bell.is_closing:
            html = await look(user, language)
            yield _message("beat" if html == last else "page", "" if html == last else html)
            last = html
            if await bell.wait(CLUSTER_LOOK_SECONDS) and not bell.is_closing:
                await asyncio.sleep(CLUSTER_PACE_SECONDS)


def _look_at_cluster(user: User, language: str) -> str:
    try:
        with translation.override(language):
            return render_to_string("web/cluster_live.html", live_parts(user))
    finally:
        connection.close()


async def _events(
    user: User, ref: str, pk: int, language: str, rank: int | None
) -> AsyncIterator[str]:
    """The page's parts now, and again whenever the job's bell rings."""
    end = time.monotonic() + LIFE_SECONDS
    look = sync_to_async(_look, thread_sensitive=False)
    with subscribe(f"job:{pk}") as bell:
        last = ""
        while time.monotonic() < end and not bell.is_closing:
            event_id, html, is_final = await look(user, ref, language, rank)
            if html != last:
                last = html
                yield _message("page", html, f"id: {event_id}\n")
            if is_final:
                yield _message("done", "", f"id: {event_id}\n")
                return
            if not await bell.wait(HEARTBEAT_SECONDS):
                yield "event: beat\ndata:\n\n"
            elif not bell.is_closing:
                await asyncio.sleep(PACE_SECONDS)


def _pk(user: User, ref: str) -> int:
    try:
        return job_visible(user, ref).pk
    finally:
        connection.close()


def _look(user: User, ref: str, language: str, rank: int | None) -> tuple[int, str, bool]:
    """The live parts of the page, rendered; the id is that of the job's last event."""
    try:
        context = story(user, job_visible(user, ref), tab="logs", rank=rank)
        with translation.override(language):
            html = render_to_string("web/job_live.html", context)
        events = context["events"]
        last = events[-1].pk if events else 0
        # Logs follow the end by a moment: the stream ends when all of them are in.
        return last, html, context["is_final"] and _logs_are_in(context)
    finally:
        connection.close()


def _logs_are_in(context: dict[str, object]) -> bool:
    job = context["job"]
    finished = getattr(job, "finished_at", None)
    return finished is None or time.time() - finished.timestamp() > 5


def _message(event: str, html: str, head: str = "") -> str:
    lines = "".join(f"data: {line}\n" for line in html.splitlines() or [""])
    return f"{head}event: {event}\n{lines}\n"
