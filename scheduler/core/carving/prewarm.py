"""What a planning pass prepares beyond what its jobs need, at its end and on what is left: a GPU
that the pass changed, or promised to somebody who waits, stays as it is until a later pass."""

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
    """Proposals on the ledger of a pass that has answered everybody; none unless `policy.warm`, no
    deletions unless `policy.merge`. `provided`: the ids of jobs that have a place, or for which one
    is being made; they ask for nothing more."""
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
    found = propose_changes(replace(snapshot, nodes=nodes, jobs=jobs), busy)
    return found if policy.merge else replace(found, merges=())


def _is_changed(space: GpuSpace) -> bool:
    seen = {one.id: one for one in space.view.slices}
    return bool(space.reserved_slices or space.deleted_slices) or space.slices != seen


def _as_left(space: GpuSpace) -> GpuView:
    """The GPU once the pass is carried out, but for what is being deleted."""
    kept = (replace(s, allocated=not space.is_idle(key)) for key, s in space.slices.items())
    return replace(space.view, slices=(*kept, *space.deleted_slices.values()))
