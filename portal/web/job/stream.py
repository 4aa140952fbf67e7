"""A job's page, live: its parts as they change and the lines of its log, over one event stream.

Every event has an id that says how far the page has followed (`portal.web.logs.cursor`). A browser
that lost the stream comes back with the last one it saw: lines go on from there, none lost, none
twice. Nothing is kept between two looks but that id, so any process can go on.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.db.models import Max
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone, translation

from portal.accounts.models import User
from portal.audit.models import Event
from portal.errors import Refused
from portal.jobs.models import Job, Replica
from portal.jobs.selectors import attempts_of, job_visible
from portal.live.listener import subscribe
from portal.web.job.log_tab import JobLog, log_bar
from portal.web.job.context import tab_context
from portal.web.job.timeline import TABS, job_context
from portal.web.logs.address import LogView, parse_number
from portal.web.logs.cursor import Cursor, parse_cursor
from portal.web.logs.updates import log_update
from portal.web.streaming.event_stream import (
    HEARTBEAT_SECONDS,
    ShuttingDown,
    event_stream_response,
    last_event_id,
    lifetime_seconds,
    retry_directive,
    shared_read,
    sse_event,
    stream_user,
)
from scheduler.core.model.states import JOB_FINAL, JobStatus

# Where lines of the log come by themselves.
TABS_WITH_LOG_LINES = ("logs", "full")
# A log that pours is shown at most this often, and one that waits to be sent this soon.
PACE_SECONDS = 0.3
# Durations on the page grow old: it is made anew at least this often.
FRESH_SECONDS = 60
# Logs follow the end of their job by a moment: the stream ends when all of them are in.
LOGS_SECONDS = 5


@dataclass(frozen=True, slots=True)
class FollowedPage:
    """What one page follows. `page`: a tab without live parts of its own; `full`: the log alone."""

    ref: str
    tab: str
    rank: int | None
    language: str


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """What one look found. `state`: what the parts were made from; `has_parts`: they are among the
    messages; `has_more`: lines wait."""

    messages: list[str]
    cursor: Cursor
    state: tuple[Any, ...]
    has_parts: bool = False
    has_more: bool = False
    is_over: bool = False


async def job_stream(request: HttpRequest, ref: str) -> HttpResponseBase:
    user = await stream_user(request)
    if user is None:
        return HttpResponse(status=401)
    try:
        pk = await shared_read(_pk, user, ref)
    except Refused as refused:
        raise Http404 from refused
    tab = request.GET.get("tab", "logs")
    watched = FollowedPage(
        ref=ref,
        tab=tab if tab in (*TABS, *TABS_WITH_LOG_LINES) else "page",
        rank=parse_number(request.GET.get("rank", ""), 4),
        language=getattr(request, "LANGUAGE_CODE", "en"),
    )
    return event_stream_response(
        job_events(user, pk, watched, parse_cursor(last_event_id(request)))
    )


def stream_address(job: Job, tab: str, log: JobLog | None) -> str:
    """Where a page of the job goes on live."""
    fields: dict[str, Any] = {"tab": tab}
    if log and log.view.is_end and log.is_last_attempt:
        fields["from"] = str(log.cursor)
        fields |= {} if log.view.rank is None else {"rank": log.view.rank}
    elif log:
        fields["tab"] = "page"
    return f"{reverse('web:stream', args=[job.label])}?{urlencode(fields)}"


async def job_events(
    user: User, pk: int, watched: FollowedPage, cursor: Cursor | None
) -> AsyncIterator[str]:
    """What changed since `cursor`, and then again whenever the job's bell rings."""
    end = time.monotonic() + lifetime_seconds()
    yield retry_directive()
    last, made_at = JobUpdate([], cursor or Cursor(), ()), 0.0
    with subscribe(f"job:{pk}") as bell:
        while time.monotonic() < end and not bell.is_closing:
            is_old = time.monotonic() - made_at > FRESH_SECONDS
            same = (user.pk, watched, str(last.cursor), last.state, is_old)
            try:
                last = await shared_read(_look, user, watched, last, is_old, share_key=same)
            except Refused:
                # No member any more: the page learns no more, and does not come back.
                yield sse_event("done", id=str(last.cursor))
                return
            except ShuttingDown:
                return
            made_at = time.monotonic() if last.has_parts else made_at
            for text in last.messages:
                yield text
            if last.is_over:
                yield sse_event("done", id=str(last.cursor))
                return
            if last.has_more:
                await asyncio.sleep(0)
            elif not await bell.wait(HEARTBEAT_SECONDS):
                yield sse_event("beat")
            else:
                await bell.pause(PACE_SECONDS)


def _pk(user: User, ref: str) -> int:
    return job_visible(user, ref).pk


def _look(user: User, watched: FollowedPage, before: JobUpdate, is_old: bool) -> JobUpdate:
    """One look: three queries where nothing changed and the parts are not old."""
    if not User.objects.filter(pk=user.pk, is_active=True).exists():
        raise Refused("not_found", "There is no such job, or you may not see it", "", 404)
    job = job_visible(user, watched.ref)
    replicas = _last_replicas(job)
    state, event = _state(job, replicas)
    cursor = replace(before.cursor, event=event)
    messages = []
    is_final = JobStatus(job.status) in JOB_FINAL
    has_more = False
    with translation.override(watched.language):
        if watched.tab in TABS_WITH_LOG_LINES:
            news = log_update(replicas, cursor, rank=watched.rank, is_final=is_final)
            cursor, has_more = news.cursor, news.has_more
            is_other = news.is_new_attempt and before.cursor.attempt > 0
            if is_other or news.lines or news.skipped:
                html = render_to_string("web/job/log_update.html", {"news": news})
                messages.append(sse_event("log", html, id=str(cursor)))
        has_parts = is_old or state != before.state
        if has_parts:
            messages.append(sse_event("page", _parts(user, job, watched), id=str(cursor)))
    is_over = is_final and not has_more and _logs_are_in(job)
    return JobUpdate(messages, cursor, state, has_parts, has_more, is_over)


def _parts(user: User, job: Job, watched: FollowedPage) -> str:
    if watched.tab == "full":
        view = LogView(reverse("web:logs_full", args=[job.label]), rank=watched.rank)
        log = log_bar(view, attempts_of(job))
        is_final = JobStatus(job.status) in JOB_FINAL
        context = {"job": job, "log": log, "is_final": is_final}
        return render_to_string("web/job/log_page_live.html", context)
    page = job_context(user, job)
    view = LogView(reverse("web:job_logs", args=[job.label]), rank=watched.rank)
    # Lines come by themselves; the log's own part would send all of them again.
    if watched.tab == "logs":
        part = {"log": log_bar(view, page["attempts"])}
    else:
        part = tab_context(watched.tab, job, page, view)
    return render_to_string("web/job/live.html", page | part | {"tab": watched.tab})


def _last_replicas(job: Job) -> list[Replica]:
    rows = Replica.objects.filter(attempt__job=job).select_related("attempt").order_by("rank")
    found = list(rows.filter(attempt=job.attempts.order_by("-number").values("pk")[:1]))
    for replica in found:
        replica.attempt.job = job
    return found


def _state(job: Job, replicas: list[Replica]) -> tuple[tuple[Any, ...], int]:
    """What the parts are made from, but for the log's length; and the job's last event."""
    event = Event.objects.filter(job=job).aggregate(last=Max("id"))["last"] or 0
    row = (job.status, job.position, job.reason, job.estimate, job.deadline_at, job.reserved_at)
    ranks = tuple((r.pk, r.status, r.exit_code, r.log_bytes > 0) for r in replicas)
    return (event, str(row), ranks), event


def _logs_are_in(job: Job) -> bool:
    if job.finished_at is None:
        return True
    return (timezone.now() - job.finished_at).total_seconds() > LOGS_SECONDS
