"""Applies a whole plan: placements first, then partitions, preemptions, and what people read.

Every step checks again under row locks; a job whose world changed since the snapshot is left for
the next pass. Database constraints stand behind this: a bug here becomes an IntegrityError, never
two jobs on one device.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from portal.inventory.models import Gpu
from portal.jobs.models import Job
from scheduler.commit.notices import deferrals_write, reservations_write
from scheduler.commit.partitions import carve_commit, merge_commit
from scheduler.commit.placements import placement_commit
from scheduler.commit.preemptions import preemption_commit
from scheduler.core.model.decisions import JobPlacement, Plan

OnNodesChanged = Callable[[frozenset[UUID]], object]
# Nodes hear of this many placements at a time.
NOTIFY_AFTER = 16


@dataclass(frozen=True, slots=True)
class CommitResult:
    placed: int
    stale: int
    """Placements that no longer fitted."""
    nodes: frozenset[UUID]
    """Nodes whose desired state changed."""


def commit(plan: Plan, on_nodes_changed: OnNodesChanged = lambda nodes: None) -> CommitResult:
    """Apply the plan. `on_nodes_changed` is called as soon as nodes have a new desired state: the
    first placements of many do not wait for the last ones, nor for the rest of the plan."""
    placements = plan.placements
    placed: list[JobPlacement] = []
    for start in range(0, len(placements), NOTIFY_AFTER):
        taken = [
            placement
            for placement in placements[start : start + NOTIFY_AFTER]
            # A plan that is committed again after a crash must not count its bypasses twice.
            if placement_commit(placement, plan.bypassed if placement is placements[-1] else ())
        ]
        placed += taken
        on_nodes_changed(_nodes_of(taken))
    if placed and placed[-1] is not placements[-1]:
        Job.objects.filter(pk__in=plan.bypassed).count_bypass()
    merged = [merge.gpu for merge in plan.merges if merge_commit(merge)]
    carved = [carve.gpu for carve in plan.carves if carve_commit(carve)]
    for preemption in plan.preemptions:
        preemption_commit(preemption)
    reservations_write(plan.reservations)
    deferrals_write(plan.deferrals)
    nodes = frozenset(Gpu.objects.filter(pk__in=merged + carved).values_list("node", flat=True))
    on_nodes_changed(nodes)
    return CommitResult(len(placed), len(placements) - len(placed), nodes | _nodes_of(placed))


def _nodes_of(placed: Iterable[JobPlacement]) -> frozenset[UUID]:
    return frozenset(UUID(replica.node) for place in placed for replica in place.replicas)
