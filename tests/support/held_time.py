"""Builders of bound and released allocations, of any time and device."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

from django.utils import timezone

from portal.allocations.models import Allocation
from portal.inventory.models import Slice
from portal.jobs.models import Attempt, Replica
from scheduler.core.model.states import AllocationStatus, SliceStatus

SECOND = timedelta(seconds=1)
# Kind, profile and units.
DEVICES = (("gpu", "", 56_000), ("mig", "2g.35gb", 16_000), ("mps", "", 14_000))
# The planner may have made earlier ones.
_numbers = count(1_000)


def lease(job, gpu, bound_at, released_at, device=DEVICES[0]) -> Allocation:
    """An allocation as binding and releasing would leave it."""
    kind, profile, units = device
    at = bound_at or timezone.now()
    attempt = Attempt.objects.create(job=job, number=next(_numbers), created_at=at)
    replica = Replica.objects.create(attempt=attempt, rank=0, node=gpu.node)
    share = {"threads": 25, "clients": 1} if kind == "mps" else {}
    piece = Slice.objects.create(
        gpu=gpu,
        kind=kind,
        profile=profile,
        units=units,
        memory_mib=1,
        status=SliceStatus.READY,
        **share,
    )
    used = (released_at - bound_at) // SECOND if released_at and bound_at else 0
    status = AllocationStatus.RELEASED if released_at else AllocationStatus.BOUND
    return Allocation.objects.create(
        replica=replica,
        slice=piece,
        project=job.project,
        user=job.owner,
        units=units,
        status=status,
        reserved_at=at,
        bound_at=bound_at,
        released_at=released_at,
        used_seconds=used,
    )
