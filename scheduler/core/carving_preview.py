"""Preview of prewarming, for the console to show before an admin switches it on."""

from dataclasses import replace

from scheduler.core.carving.proposals import Proposals, propose_changes
from scheduler.core.model.decisions import JobPlacement, Plan, Reservation
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.plan import plan
from scheduler.core.queue.order import WorkEstimator


def plan_with_proposals(
    snapshot: ClusterSnapshot,
    policy: Policy,
    job: WaitingJob | None = None,
    runtime_model: WorkEstimator | None = None,
) -> tuple[Plan, Proposals]:
    """The plan of a pass as if `policy.warm` were set and `job` waited too, and what that pass
    would prepare beyond what its jobs need.

    Modes are only advice: an empty GPU changes its mode when a placement needs it."""
    if job is not None:
        snapshot = replace(snapshot, jobs=(*snapshot.jobs, job))
    decided = plan(snapshot, replace(policy, warm=True), runtime_model)
    placed: tuple[JobPlacement | Reservation, ...] = (*decided.placements, *decided.reservations)
    busy = {d.gpu for each in placed for replica in each.replicas for d in replica.devices}
    busy |= {merge.gpu for merge in decided.merges} | {carve.gpu for carve in decided.carves}
    modes = propose_changes(snapshot, frozenset(busy)).modes
    merges = tuple(merge for merge in decided.merges if not merge.for_job)
    return decided, Proposals(decided.carves, merges, modes)
