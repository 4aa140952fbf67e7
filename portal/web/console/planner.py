"""Whether a page runs a planning pass unasked: on a large cluster that takes seconds."""

from django.http import HttpRequest

from portal.inventory.models import Node
from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus

MAX_QUEUED_JOBS, MAX_NODES = 200, 50


def should_run_planner(request: HttpRequest) -> bool:
    """True if a pass is quick, or the reader followed the link that requests one."""
    if request.GET.get("ask") == "1":
        return True
    queued = Job.objects.filter(status=JobStatus.QUEUED).count()
    return queued <= MAX_QUEUED_JOBS and Node.objects.count() <= MAX_NODES
