"""The live parts of the Jobs page. It follows the bells of the jobs it shows and reads again in
between, because a new job rings only its own bell."""

from collections.abc import Iterable
from functools import partial

from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from portal.accounts.models import User
from portal.jobs.filters import hidden_fields
from portal.jobs.paging import SIZE
from portal.jobs.selectors import LABEL, jobs_visible_to
from portal.live.bell import QUEUE
from portal.web.jobs.context import job_filters, list_query, listed_arrays
from portal.web.page_parts import PageParts, StreamPace, parts_stream
from scheduler.core.model.states import JOB_WAITING, JobStatus

PACE = StreamPace(min_seconds=2, max_seconds=15)
MAX_NEWER = 99


async def jobs_stream(request: HttpRequest) -> HttpResponseBase:
    return await parts_stream(
        request,
        partial(live_jobs, query=request.GET),
        share_key=("jobs", request.GET.urlencode()),
        pace=PACE,
        bells=(*_bells(_keys(request.GET.getlist("row"))), QUEUE),
    )


def live_jobs(user: User, query: QueryDict) -> PageParts:
    """The rows on the page, which its address names, and how many jobs are newer."""
    keys = _keys(query.getlist("row"))
    rows = list(jobs_visible_to(user).filter(pk__in=keys))
    filters = job_filters(user, query)
    newer = filters.qs.filter(pk__gt=max(keys, default=0))
    context = {
        "jobs": rows,
        "arrays": {} if filters.data.get("array") else listed_arrays(rows),
        "newer_count": newer[:MAX_NEWER].count() if filters.sorting == ("-id",) else 0,
        "query": list_query(hidden_fields(filters)),
    }
    is_any_waiting = any(JobStatus(job.status) in JOB_WAITING for job in rows)
    bells = (*_bells(keys), QUEUE) if is_any_waiting else _bells(keys)
    return PageParts(render_to_string("web/jobs/live.html", context), bells)


def _keys(refs: Iterable[str]) -> list[int]:
    return [int(match[1]) for ref in refs if (match := LABEL.fullmatch(ref))][:SIZE]


def _bells(keys: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"job:{key}" for key in keys)
