"""Prepares slices for expected demand at the end of a pass, on the devices that it leaves.

A GPU that the pass has changed or reserved for a waiting job stays as it is until a later pass.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from scheduler.core.carving.proposals import Proposals, propose_changes
from scheduler.core.model.decisions import Reservation
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import GpuView
from scheduler.core.placement.ledger import GpuSpace, Ledger


def prewarm(
    policy: Policy,
    ledger: Ledger,
    served_jobs: Collection[str],
    reservations: Iterable[Reservation],
) -> Proposals:
    """Proposals on the ledger of a finished pass: none unless `policy.warm`, no deletions unless
    `policy.merge`.

    `served_jobs`: ids of the jobs that have a place, or for which one is being made. They count as
    demand no more."""
    if not policy.warm:
        return Proposals()
    snapshot = ledger.snapshot
    changed = {key: space for key, space in ledger.gpus.items() if _is_changed(space)}
    busy = frozenset(changed) | {
        device.gpu for r in reservations for replica in r.replicas for device in replica.devices
    }
    nodes = tuple(
        replace(n, gpus=tuple(_as_left(changed[g.id]) if g.id in changed else g for g in n.gpus))
        for n in snapshot.nodes
    )
    jobs = tuple(job for job in snapshot.jobs if job.id not in served_jobs)
    proposals = propose_changes(replace(snapshot, nodes=nodes, jobs=jobs), busy)
    return proposals if policy.merge else replace(proposals, merges=())


def _is_changed(space: GpuSpace) -> bool:
    views = {view.id: view for view in space.view.slices}
    return bool(space.reserved_slices or space.deleted_slices) or space.slices != views


def _as_left(space: GpuSpace) -> GpuView:
    """The GPU once the plan is carried out. Slices being deleted are still on it."""
    slices = (replace(s, allocated=not space.is_idle(key)) for key, s in space.slices.items())
    return replace(space.view, slices=(*slices, *space.deleted_slices.values()))
