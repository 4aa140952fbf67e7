"""What would be prepared under a policy: for a console to show before anybody switches it on."""

from dataclasses import replace

from scheduler.core.carving.proposals import Proposals, propose_changes
from scheduler.core.model.decisions import JobPlacement, Plan, Reservation
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.plan import plan
from scheduler.core.queue.order import WorkEstimator


def preview(snapshot: ClusterSnapshot, policy: Policy, job: WaitingJob | None = None) -> Proposals:
    """What one pass under `policy` would prepare beyond what its jobs need, as if `policy.warm`
    were set; `job`: as if it waited, too. `Proposals.told` gives a sentence for each.

    Modes are told as advice: an empty GPU changes its mode when a placement asks for it."""
    return plan_with_proposals(snapshot, policy, job)[1]


def plan_with_proposals(
    snapshot: ClusterSnapshot,
    policy: Policy,
    job: WaitingJob | None = None,
    outlook: WorkEstimator | None = None,
) -> tuple[Plan, Proposals]:
    """The same, and what the pass itself would do."""
    if job is not None:
        snapshot = replace(snapshot, jobs=(*snapshot.jobs, job))
    made = plan(snapshot, replace(policy, warm=True), outlook)
    given: tuple[JobPlacement | Reservation, ...] = (*made.placements, *made.reservations)
    busy = {d.gpu for one in given for replica in one.replicas for d in replica.devices}
    busy |= {merge.gpu for merge in made.merges} | {carve.gpu for carve in made.carves}
    modes = propose_changes(snapshot, frozenset(busy)).modes
    return made, Proposals(made.carves, tuple(m for m in made.merges if not m.for_job), modes)
