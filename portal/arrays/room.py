"""The cap of an array, counted on its locked row: how many members may get devices now."""

from collections import Counter
from collections.abc import Iterable

from django.db.models import Count

from portal.arrays.models import JobArray
from portal.jobs.models import Job


class CapRoom:
    """Of the arrays with a cap among these jobs. Their rows stay locked until the transaction ends,
    so two committers count each other's members. Nothing is asked for jobs without a cap."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        capped = {job.array_id for job in jobs if job.array_cap and job.array_id is not None}
        self._running: Counter[int | None] = Counter()
        if capped:
            JobArray.objects.filter(pk__in=capped).lock_keys()
            rows = Job.objects.allocated().filter(array__in=capped, array_index__isnull=False)
            counts = rows.order_by().values_list("array").annotate(Count("pk"))
            self._running.update(dict(counts))

    def is_full(self, job: Job) -> bool:
        """Whether as many members of its array have devices as may."""
        return bool(job.array_cap) and self._running[job.array_id] >= job.array_cap

    def enter(self, job: Job) -> None:
        """Count a member that gets devices."""
        if job.array_cap:
            self._running[job.array_id] += 1
