"""What the planner knows of jobs of several sizes alone. Asks nothing where there are none."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from portal.jobs.models import Attempt
from portal.planning.running import LiveAllocation
from scheduler.core.model.snapshot import NodeView, RunningJob, WaitingJob

# For so long at most after the end of an attempt its job waits for the devices that it had.
RELEASE_WITHIN = timedelta(seconds=60)


def with_saved(running: tuple[RunningJob, ...]) -> tuple[RunningJob, ...]:
    """Whether each has sent a checkpoint since it started. One query if there are any."""
    ids = [int(run.job.id) for run in running if run.job.sizes]
    if not ids:
        return running
    saved = Attempt.objects.open().filter(job__in=ids, saved_at__isnull=False)
    jobs = {str(pk) for pk in saved.values_list("job_id", flat=True)}
    return tuple(replace(r, has_saved=True) if r.job.id in jobs else r for r in running)


def with_releasing(
    waiting: tuple[WaitingJob, ...],
    live: Iterable[LiveAllocation],
    nodes: Sequence[NodeView],
    now: datetime,
) -> tuple[WaitingJob, ...]:
    """Whether devices of their last attempt are about to be free: those of nodes that answer. One
    query if a job waits that still has some."""
    if not any(job.sizes for job in waiting):
        return waiting
    answering = {node.id for node in nodes if node.available}
    held = {str(row.job) for row in live if str(row.node) in answering}
    ids = [int(job.id) for job in waiting if job.sizes and job.id in held]
    if not ids:
        return waiting
    ended = Attempt.objects.filter(job__in=ids, ended_at__gt=now - RELEASE_WITHIN)
    jobs = {str(pk) for pk in ended.values_list("job_id", flat=True)}
    return tuple(replace(j, is_releasing=True) if j.id in jobs else j for j in waiting)
