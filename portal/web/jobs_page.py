"""Jobs: everything that the user may see, filtered by the URL."""

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from portal.web.person import person
from portal.web.reading import jobs_filtered
from portal.web.words import BADGES
from scheduler.core.states import JobStatus


@login_required
def jobs(request: HttpRequest) -> HttpResponse:
    status = request.GET.get("status", "")
    status = status if status in set(JobStatus) else ""
    text, mine = request.GET.get("q", ""), request.GET.get("mine") == "1"
    rows = jobs_filtered(person(request), status=status, text=text, mine=mine)
    context = {
        "page": Paginator(rows, 50).get_page(request.GET.get("page")),
        "statuses": [(str(s), badge.word) for s, badge in BADGES.items()],
        "status": status,
        "q": text,
        "mine": mine,
    }
    return render(request, "web/jobs.html", context)
