"""Applies a whole plan: placements first, then partitions, preemptions, and what people read.

Placements are committed many in a transaction, other decisions one by one. Every step checks again
under row locks; a job whose world changed since the snapshot is left for the next pass, as is all
that there was no time for. Database constraints stand behind this: a bug here becomes an
IntegrityError, never two jobs on one device.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from portal.inventory.models import Gpu
from portal.jobs.models import Job
from scheduler.commit.notices import deferrals_write, reservations_write
from scheduler.commit.partitions import carve_commit, merge_commit
from scheduler.commit.placements import placements_commit
from scheduler.commit.preemptions import preemption_commit
from scheduler.commit.resizes import resize_commit
from scheduler.core.model.decisions import (
    Carve,
    JobPlacement,
    Merge,
    Plan,
    Preemption,
    Resize,
)

OnNodesChanged = Callable[[frozenset[UUID]], object]
# Placements of one transaction, with which their nodes hear of them. It holds the quotas of their
# owners for some 100 ms.
BATCH_SIZE = 64


@dataclass(frozen=True, slots=True)
class CommitResult:
    placed: int
    stale: int
    """Placements that no longer fitted."""
    remaining: int
    """Decisions that there was no time for; the next pass decides about them again."""
    nodes: frozenset[UUID]
    """Nodes whose desired state changed."""


def commit(
    plan: Plan,
    on_nodes_changed: OnNodesChanged = lambda nodes: None,
    *,
    between_steps: Callable[[], object] = lambda: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> CommitResult:
    """Apply the plan. Nodes hear of their placements with each transaction: the first ones of many
    do not wait for the last ones, nor for the rest of the plan. `on_nodes_changed` is called with
    the nodes whose partitions are to change.

    `between_steps` and `should_stop` are called between two transactions. Once `should_stop`
    returns True, no further decision is applied, apart from the first ones of the plan.
    Reservations and reasons are written even then: people read them, and what they take is bounded
    by the length of the queue of a pass."""
    placements = plan.placements
    placed: list[JobPlacement] = []
    tried = 0
    while tried < len(placements) and not (tried and should_stop()):
        batch = placements[tried : tried + BATCH_SIZE]
        tried += len(batch)
        # A plan that is committed again after a crash must not count its bypasses twice.
        placed += placements_commit(batch, plan.bypassed if tried == len(placements) else ())
        between_steps()
    if placed and placed[-1] is not placements[-1]:
        Job.objects.filter(pk__in=plan.bypassed).count_bypass()
    steps: list[Callable[[], str]] = [
        *(partial(_merge, merge) for merge in plan.merges),
        *(partial(_carve, carve) for carve in plan.carves),
        *(partial(_preempt, preemption) for preemption in plan.preemptions),
        *(partial(_resize, resize) for resize in plan.resizes),
    ]
    changed_gpus, done = [], 0
    while done < len(steps) and not ((tried or done) and should_stop()):
        changed_gpus.append(steps[done]())
        done += 1
        between_steps()
    reservations_write(plan.reservations)
    deferrals_write(plan.deferrals)
    gpus = Gpu.objects.filter(pk__in=[gpu for gpu in changed_gpus if gpu])
    nodes = frozenset(gpus.values_list("node", flat=True))
    on_nodes_changed(nodes)
    return CommitResult(
        placed=len(placed),
        stale=tried - len(placed),
        remaining=len(placements) - tried + len(steps) - done,
        nodes=nodes | _nodes_of(placed),
    )


# Each returns the GPU whose partition it changed, or "".


def _merge(merge: Merge) -> str:
    return merge.gpu if merge_commit(merge) else ""


def _carve(carve: Carve) -> str:
    return carve.gpu if carve_commit(carve) else ""


def _preempt(preemption: Preemption) -> str:
    preemption_commit(preemption)
    return ""


def _resize(resize: Resize) -> str:
    resize_commit(resize)
    return ""


def _nodes_of(placed: Iterable[JobPlacement]) -> frozenset[UUID]:
    return frozenset(UUID(replica.node) for place in placed for replica in place.replicas)
