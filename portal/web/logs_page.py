"""A replica's log whole, as it came: sent in pieces, never read at once."""

from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.db import connection
from django.http import Http404, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from portal.accounts.models import User
from portal.errors import Refused
from portal.jobs.logs import read_log
from portal.jobs.models import Replica
from portal.jobs.selectors import job_visible, replica_of
from portal.web.log_view import log_view
from portal.web.streaming import released, unheld

PIECE_BYTES = 256 * 1024


async def raw_log(request: HttpRequest, ref: str) -> HttpResponseBase:
    """One replica's log for download: plain text, so that a browser never reads markup in it."""
    user = await request.auser()
    await released()
    if isinstance(user, AnonymousUser):
        return redirect_to_login(request.get_full_path())
    view = log_view(request.path, request.GET.dict())
    look = sync_to_async(_replica, thread_sensitive=False)
    try:
        replica = await look(user, ref, view.rank or 0, view.attempt)
    except Refused as refused:
        raise Http404 from refused
    label = f"J-{replica.attempt.job_id}-rank-{replica.rank}"
    answer = StreamingHttpResponse(
        unheld(_pieces(replica)), content_type="text/plain; charset=utf-8"
    )
    answer["Content-Disposition"] = f'attachment; filename="{label}.log"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


def _replica(user: User, ref: str, rank: int, attempt: int | None) -> Replica:
    try:
        return replica_of(job_visible(user, ref), rank=rank, attempt=attempt)
    finally:
        connection.close()


async def _pieces(replica: Replica) -> AsyncIterator[bytes]:
    read = sync_to_async(read_log, thread_sensitive=False)
    offset = 0
    while piece := await read(replica, offset, PIECE_BYTES):
        yield piece
        offset += len(piece)
