"""A job's log on a page of its own, and the raw log for download."""

from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from portal.accounts.models import User
from portal.allocations.selectors import attempts_of
from portal.audit.selectors import newest_event_id
from portal.errors import Refused
from portal.event_stream import release_connection, without_connection
from portal.job_logs.storage import LogRemoved, log_stream
from portal.jobs.models import Replica
from portal.jobs.selectors import job_visible, replica_of
from portal.storage.errors import StoreError
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job.access import visible_job_or_404
from portal.web.job.log_tab import job_log
from portal.web.job.stream import stream_address
from portal.web.logs.address import log_view
from portal.web.wording.messages import refusal_text
from scheduler.core.model.states import JOB_FINAL, JobStatus


@login_required
@require_safe
def logs_full(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """The log at full width. The query names the lines and how they are shown."""
    job = visible_job_or_404(request, ref)
    paths = [reverse(name, args=[job.label]) for name in ("web:logs_full", "web:job_logs")]
    view = log_view(paths[0], request.GET.dict(), paths[1])
    log = job_log(view, attempts_of(job), last_event=newest_event_id(job))
    is_final = JobStatus(job.status) in JOB_FINAL
    stream = "" if is_final else stream_address(job, "full", log)
    context = {"job": job, "log": log, "is_final": is_final, "stream": stream}
    return render(request, "web/job/log_page.html", context)


async def raw_log(request: HttpRequest, ref: str) -> HttpResponseBase:
    """One replica's log for download. Plain text, so that a browser never renders it as markup."""
    user = await request.auser()
    await release_connection()
    if isinstance(user, AnonymousUser):
        return redirect_to_login(request.get_full_path())
    view = log_view(request.path, request.GET.dict())
    read_replica = sync_to_async(_replica, thread_sensitive=False)
    try:
        replica, first = await read_replica(user, ref, view.rank or 0, view.attempt)
    except (StoreError, LogRemoved) as error:
        return HttpResponse(refusal_text(error), status=error.status, content_type="text/plain")
    except Refused as refused:
        raise Http404 from refused
    label = f"J-{replica.attempt.job_id}-rank-{replica.rank}"
    response = StreamingHttpResponse(
        without_connection(_chunks(replica, first)), content_type="text/plain; charset=utf-8"
    )
    response["Content-Disposition"] = f'attachment; filename="{label}.log"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _replica(user: User, ref: str, rank: int, attempt: int | None) -> tuple[Replica, bytes]:
    """The replica, and the first bytes of its log: a log that cannot be read is no empty file."""
    try:
        replica = replica_of(job_visible(user, ref), rank=rank, attempt=attempt)
        return replica, log_stream(replica).read_segment(0)
    finally:
        connection.close()


async def _chunks(replica: Replica, chunk: bytes) -> AsyncIterator[bytes]:
    """The whole log. A piece that cannot be read breaks the download off."""
    read = sync_to_async(_read_segment, thread_sensitive=False)
    offset = 0
    while chunk:
        yield chunk
        offset += len(chunk)
        chunk = await read(replica, offset)


def _read_segment(replica: Replica, offset: int) -> bytes:
    try:
        return log_stream(replica).read_segment(offset)
    finally:
        connection.close()
