"""The live parts of a job's page and the lines of its log, over one event stream.

The id of each event says how far the page has followed (`portal.web.logs.cursor`). A browser that
reconnects sends the last id back, and lines continue there: none is lost, none is sent twice. The
id is the only state, so any process can continue a stream.
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
from django.utils import timezone

from portal.accounts.models import User
from portal.allocations.models import Allocation
from portal.allocations.selectors import attempts_of
from portal.audit.models import Event
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.event_stream import (
    HEARTBEAT_SECONDS,
    ShuttingDown,
    event_stream_response,
    last_event_id,
    lifetime_seconds,
    retry_directive,
    shared_read,
    sse_event,
    stream_owner,
    stream_user,
)
from portal.job_metrics.selectors import reported_at
from portal.jobs.models import Job, Replica
from portal.jobs.selectors import job_visible
from portal.live.bell import QUEUE
from portal.live.listener import listener, subscribe
from portal.storage.errors import StoreError, StoreUnavailable
from portal.storage.stores import current_store
from portal.web.cluster.stream import BELL as CLUSTER_BELL
from portal.web.job.context import TABS, job_context, tab_context
from portal.web.job.files import job_output
from portal.web.job.log_tab import JobLog, log_bar
from portal.web.job.ranks_tab import JobRanks, rank_heads
from portal.web.job.start_progress import STARTING
from portal.web.logs.address import LogView, parse_number
from portal.web.logs.cursor import Cursor, parse_cursor
from portal.web.logs.updates import LogUpdate, log_update
from portal.web.page_parts import PageFace, page_face
from portal.web.wording.messages import refusal_text
from scheduler.core.model.states import (
    JOB_FAILED,
    JOB_FINAL,
    JOB_WAITING,
    JobStatus,
    SliceStatus,
)

# Tabs whose log lines are sent as they arrive.
TABS_WITH_LOG_LINES = ("logs", "full", "ranks")
# More than a page of ranks shows.
MAX_RANKS = 64
# Between two updates of a log that grows fast.
PACE_SECONDS = 0.3
# A job rings for every change, so the reads in between are for what rings nothing.
BEATS_BETWEEN_READS = 2
# The parts are rendered at least this often, because they show durations.
REFRESH_SECONDS = 60
# The last log bytes may arrive this long after the job has ended; the stream waits for them.
LATE_LOG_SECONDS = 5
# And the cause of a failure this long, if no worker comes to it.
LATE_DIAGNOSIS_SECONDS = 30


@dataclass(frozen=True, slots=True)
class FollowedPage:
    """What one page shows, and so what its stream sends."""

    ref: str
    tab: str
    """A tab's name; "full" for the full-width log; "page" for a tab without live parts."""
    rank: int | None
    face: PageFace
    ranks: tuple[int, ...] = ()
    """The ranks of a page that shows some of a large gang; empty for others."""


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """What one read found."""

    events: list[str]
    """Encoded events, ready to be sent."""
    cursor: Cursor
    state: tuple[Any, ...]
    """What the parts were rendered from; they are sent again when it changes."""
    has_parts: bool = False
    """The parts are among the events."""
    has_more: bool = False
    """More log lines are ready to be sent."""
    is_over: bool = False
    bells: tuple[str, ...] = (QUEUE,)
    """Beside the job's own."""


async def job_stream(request: HttpRequest, ref: str) -> HttpResponseBase:
    user = await stream_user(request)
    if user is None:
        return HttpResponse(status=401)
    try:
        pk = await shared_read(_pk, user, ref)
    except Refused as refused:
        raise Http404 from refused
    tab = request.GET.get("tab", "logs")
    followed = FollowedPage(
        ref=ref,
        tab=tab if tab in (*TABS, *TABS_WITH_LOG_LINES) else "page",
        rank=parse_number(request.GET.get("rank", ""), 4),
        face=page_face(request),
        ranks=_parse_ranks(request.GET.get("ranks", "")),
    )
    events = job_stream_events(user, pk, followed, parse_cursor(last_event_id(request)))
    return event_stream_response(events, stream_owner(request, user))


def _parse_ranks(text: str) -> tuple[int, ...]:
    """ "3,0,1" as numbers; what is none is left out."""
    numbers = (parse_number(word, 5) for word in text[: MAX_RANKS * 6].split(","))
    return tuple(number for number in numbers if number is not None)[:MAX_RANKS]


def stream_address(job: Job, tab: str, log: JobLog | None, ranks: JobRanks | None = None) -> str:
    """The stream that continues a page of the job. `log`, `ranks`: what its tab shows."""
    fields: dict[str, Any] = {"tab": tab}
    if ranks:
        fields["from"] = str(ranks.cursor)
        fields |= {"ranks": ",".join(map(str, ranks.shown))} if ranks.shown else {}
    elif log and log.view.is_end and log.is_last_attempt:
        fields["from"] = str(log.cursor)
        fields |= {} if log.view.rank is None else {"rank": log.view.rank}
    elif log:
        fields["tab"] = "page"
    return f"{reverse('web:job_stream', args=[job.label])}?{urlencode(fields)}"


async def job_stream_events(
    user: User, pk: int, followed: FollowedPage, cursor: Cursor | None
) -> AsyncIterator[str]:
    """What changed since `cursor`: now, and after each ring of the job's bell."""
    end = time.monotonic() + lifetime_seconds()
    yield retry_directive()
    update, rendered_at = JobUpdate([], cursor or Cursor(), ()), 0.0
    with subscribe(f"job:{pk}", QUEUE) as bell:
        while time.monotonic() < end and not bell.is_closing:
            is_stale = time.monotonic() - rendered_at > REFRESH_SECONDS
            key = (user.pk, followed, str(update.cursor), update.state, is_stale)
            try:
                update = await shared_read(
                    _read_update, user, followed, update, is_stale, share_key=key
                )
            except Refused:
                # The user may not see the job any more: the page gets no more and stays closed.
                yield sse_event("done", id=str(update.cursor))
                return
            except ShuttingDown:
                return
            listener().set_keys(bell, (f"job:{pk}", *update.bells))
            rendered_at = time.monotonic() if update.has_parts else rendered_at
            for event in update.events:
                yield event
            if update.is_over:
                yield sse_event("done", id=str(update.cursor))
                return
            if update.has_more:
                await asyncio.sleep(0)
                continue
            for _beat in range(BEATS_BETWEEN_READS):
                if await bell.wait(HEARTBEAT_SECONDS):
                    await bell.pause(PACE_SECONDS)
                    break
                yield sse_event("beat")


def _pk(user: User, ref: str) -> int:
    return job_visible(user, ref).pk


def _read_update(
    user: User, followed: FollowedPage, before: JobUpdate, is_stale: bool
) -> JobUpdate:
    """Three queries where nothing changed and the parts are fresh, one more while it starts and
    after its end."""
    if not User.objects.filter(pk=user.pk, is_active=True).exists():
        raise Refused(ErrorCode.NOT_FOUND, "This job does not exist, or you may not see it")
    job = job_visible(user, followed.ref)
    replicas = _last_replicas(job)
    state, last_event = _state(job, replicas)
    cursor = replace(before.cursor, event=last_event)
    events = []
    is_final = JobStatus(job.status) in JOB_FINAL
    has_more = False
    with followed.face.active():
        notice = ""
        if followed.tab in TABS_WITH_LOG_LINES:
            log, notice = _read_log(replicas, cursor, followed, is_final=is_final)
            if followed.tab == "ranks" and log.is_new_attempt:
                # Its panels first, as the lines go into them. Who misses the lines begins again.
                panels = _panels(job, followed, notice)
                events.append(sse_event("page", panels, id=str(before.cursor)))
            cursor, has_more = log.cursor, log.has_more
            is_restart = log.is_new_attempt and before.cursor.attempt > 0
            if is_restart or log.lines or log.skipped:
                html = render_to_string("web/job/log_update.html", {"update": log})
                events.append(sse_event("log", html, id=str(cursor)))
        state = (*state, notice)
        if is_final:
            # What it wrote arrives a moment after its end.
            state = (*state, job_output(job) is not None)
        if followed.tab == "metrics":
            state = (*state, reported_at(job))
        has_parts = is_stale or state != before.state
        if has_parts:
            events.append(sse_event("page", _parts(user, job, followed, notice), id=str(cursor)))
    is_over = is_final and not has_more and _is_complete(job)
    return JobUpdate(events, cursor, state, has_parts, has_more, is_over, _bells(job))


def _bells(job: Job) -> tuple[str, ...]:
    """Only a job that waits has a reason, a position and an estimate; of one that starts, nodes
    report how far its slices are carved."""
    if JobStatus(job.status) in JOB_WAITING:
        return (QUEUE,)
    return (CLUSTER_BELL,) if JobStatus(job.status) in STARTING else ()


def _read_log(
    replicas: list[Replica], cursor: Cursor, followed: FollowedPage, *, is_final: bool
) -> tuple[LogUpdate, str]:
    """New lines, and why there may be none; lines that cannot be read now follow later."""
    if followed.ranks:
        replicas = [replica for replica in replicas if replica.rank in followed.ranks]
    try:
        update = log_update(replicas, cursor, rank=followed.rank, is_final=is_final)
        # Without new bytes nothing was read, and the store may be why there are none.
        is_failing = not is_final and not update.lines and current_store().is_failing
    except StoreError as error:
        return LogUpdate(cursor), refusal_text(error)
    return update, refusal_text(StoreUnavailable("")) if is_failing else ""


def _parts(user: User, job: Job, followed: FollowedPage, notice: str) -> str:
    if followed.tab == "full":
        view = LogView(reverse("web:logs_full", args=[job.label]), rank=followed.rank)
        log = log_bar(view, attempts_of(job), notice)
        is_final = JobStatus(job.status) in JOB_FINAL
        context = {"job": job, "log": log, "is_final": is_final}
        return render_to_string("web/job/log_page_live.html", context)
    page = job_context(user, job)
    view = LogView(reverse("web:job_logs", args=[job.label]), rank=followed.rank)
    # Log lines have events of their own; the tab's part would send all of them again.
    part: dict[str, Any]
    if followed.tab == "logs":
        part = {"log": log_bar(view, page["attempts"], notice)}
    elif followed.tab == "ranks":
        part = {"ranks": rank_heads(job, page["attempt"], followed.ranks, notice)}
    else:
        part = tab_context(followed.tab, user, job, page, view)
    return render_to_string("web/job/live.html", page | part | {"tab": followed.tab})


def _panels(job: Job, followed: FollowedPage, notice: str) -> str:
    """The Ranks tab of another attempt, without lines."""
    ranks = rank_heads(job, attempts_of(job)[-1], followed.ranks, notice)
    return render_to_string("web/job/ranks.html", {"job": job, "ranks": ranks})


def _last_replicas(job: Job) -> list[Replica]:
    rows = Replica.objects.filter(attempt__job=job).select_related("attempt").order_by("rank")
    found = list(rows.filter(attempt=job.attempts.order_by("-number").values("pk")[:1]))
    for replica in found:
        replica.attempt.job = job
    return found


def _state(job: Job, replicas: list[Replica]) -> tuple[tuple[Any, ...], int]:
    """What the parts are rendered from, except the length of the log; and the job's last event."""
    event = Event.objects.filter(job=job).aggregate(last=Max("id"))["last"] or 0
    row = (
        *(job.status, job.position, job.reason, job.estimate, job.deadline_at, job.reserved_at),
        job.diagnosis,
        [replica.attempt.finding for replica in replicas[:1]],
    )
    ranks = tuple((r.pk, r.status, r.exit_code, r.log_bytes > 0, str(r.pull)) for r in replicas)
    return (event, str(row), ranks, _carved_slices(job, replicas)), event


def _carved_slices(job: Job, replicas: list[Replica]) -> int:
    """Of a job that starts. One query then."""
    if JobStatus(job.status) not in STARTING:
        return 0
    held = Allocation.objects.filter(replica__in=[replica.pk for replica in replicas])
    return held.filter(slice__status=SliceStatus.READY).count()


def _is_complete(job: Job) -> bool:
    """Neither log bytes nor a diagnosis are to be expected any more."""
    if job.finished_at is None:
        return True
    is_diagnosed = JobStatus(job.status) not in JOB_FAILED or job.diagnosis is not None
    wait_seconds = LATE_LOG_SECONDS if is_diagnosed else LATE_DIAGNOSIS_SECONDS
    return (timezone.now() - job.finished_at).total_seconds() > wait_seconds
