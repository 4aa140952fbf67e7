"""Home: what runs, what waits and why, what ended, and one button."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.selectors import projects_to_work_in
from portal.web.person import person
from portal.web.reading import cluster_maps, my_jobs, ring


@login_required
def home(request: HttpRequest) -> HttpResponse:
    user = person(request)
    jobs = my_jobs(user)
    project = projects_to_work_in(user).order_by("slug").first()
    context = {
        **jobs,
        "headline": headline(len(jobs["running"]), len(jobs["waiting"])),
        "is_empty": not any(jobs.values()),
        "project": project,
        "ring": ring(user, project) if project else None,
        "maps": cluster_maps(user),
    }
    return render(request, "web/home.html", context)


def headline(running: int, waiting: int) -> str:
    """The page's answer: how one's own work stands."""
    runs = ngettext("%(n)s job running", "%(n)s jobs running", running) % {"n": running}
    if running and waiting:
        return _("%(running)s, %(waiting)s waiting") % {"running": runs, "waiting": waiting}
    if running:
        return runs
    if waiting:
        return ngettext("%(n)s job waiting", "%(n)s jobs waiting", waiting) % {"n": waiting}
    return _("Nothing of yours runs or waits")
