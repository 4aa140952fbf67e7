"""One planning pass: the queue in turn, each job placed, given room by a merge, or held.

Deterministic: the same snapshot gives the same plan, in whatever order its parts are listed.
"""

from agents.contract.documents import SliceKind
from scheduler.core.capacity import impossible
from scheduler.core.decisions import Hold, Merge, Place, Plan
from scheduler.core.explain import explain, repartition
from scheduler.core.fits import quota_reason
from scheduler.core.ledger import Ledger
from scheduler.core.order import in_turn
from scheduler.core.place import Found, find
from scheduler.core.policy import Policy
from scheduler.core.reasons import Reason, ReasonCode
from scheduler.core.values import ClusterSnapshot, WaitingJob
from scheduler.core.wants import Want, gpu_board, wants


def plan(snapshot: ClusterSnapshot, policy: Policy) -> Plan:
    """What to do now: every waiting job is either placed or held with one reason."""
    return _Pass(snapshot, policy).run()


class _Pass:
    """The state of one pass. `failed` remembers requests that found no place: the ledger only
    fills up, so the same request cannot find one later in the pass."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.ledger = Ledger(snapshot)
        self.boards = {gpu_board(gpu) for node in snapshot.nodes for gpu in node.gpus}
        self.failed: dict[object, Reason] = {}
        self.places: list[Place] = []
        self.merges: list[Merge] = []
        self.holds: list[Hold] = []

    def run(self) -> Plan:
        for job in in_turn(self.snapshot.jobs, self.ledger):
            reason = self._try(job)
            if reason is not None:
                self.holds.append(Hold(job.id, reason, len(self.holds) + 1))
        return Plan(tuple(self.places), tuple(self.merges), tuple(self.holds))

    def _try(self, job: WaitingJob) -> Reason | None:
        """Place the job; or the reason that it stays in the queue."""
        if reason := impossible(job, self.snapshot):
            return reason
        ways = wants(job.device, self.boards)
        if not ways:
            return _no_nodes()
        affordable = [w for w in ways if self._quota(job, w) is None]
        if not affordable:
            return self._quota(job, ways[0])
        request = (job.device, job.replicas, job.cpu_milli, job.memory_mib, job.topology)
        # Who may share with whom depends on the project, and on how many processes share.
        shares = any(want.kind is SliceKind.MPS for want in affordable)
        whose = (job.project, job.processes) if shares else ()
        key = (request, tuple(affordable), whose)
        if key in self.failed:
            return self.failed[key]
        reason = self._place(job, affordable)
        if reason is not None and reason.code is not ReasonCode.REPARTITION:
            self.failed[key] = reason
        return reason

    def _quota(self, job: WaitingJob, want: Want) -> Reason | None:
        return quota_reason(job, want.replica_units * job.replicas, self.ledger)

    def _place(self, job: WaitingJob, ways: list[Want]) -> Reason | None:
        for want in ways:
            if found := find(job, want, self.ledger):
                self.places.append(Place(job.id, tuple(found.replicas), _why(found)))
                return None
        for want in ways if self.policy.merge else ():
            if found := find(job, want, self.ledger, merging=True):
                # The ledger keeps the place: nobody later in this pass may take it.
                self._merge(job, found)
                return repartition()
        return explain(job, ways[0], self.ledger, self.snapshot, _can_place)

    def _merge(self, job: WaitingJob, found: Found) -> None:
        """Ask to delete the idle slices that are ready; others are on their way already."""
        views = {s.id: s for node in self.snapshot.nodes for g in node.gpus for s in g.slices}
        for gpu, slices in sorted(found.merges.items()):
            ready = tuple(sorted(s for s in slices if views[s].ready))
            if ready:
                self.merges.append(Merge(gpu, ready, job.id))


def _can_place(job: WaitingJob, want: Want, ledger: Ledger) -> bool:
    return find(job, want, ledger) is not None


def _no_nodes() -> Reason:
    sentence = "No node has been added yet"
    return Reason(ReasonCode.NODE_UNAVAILABLE, sentence, {}, "An admin adds a node")


def _why(found: Found) -> str:
    nodes = len({replica.node for replica in found.replicas})
    devices = [d for replica in found.replicas for d in replica.devices]
    carved = sum(1 for d in devices if not d.slice and d.profile)
    shared = sum(1 for d in devices if d.threads)
    reused = sum(1 for d in devices if d.slice)
    parts = [f"{carved} carved"] * bool(carved) + [f"{reused} ready"] * bool(reused)
    parts += [f"{shared} shared"] * bool(shared)
    told = f" ({', '.join(parts)})" if parts else ""
    word = "device" if len(devices) == 1 else "devices"
    where = "one node" if nodes == 1 else f"{nodes} nodes"
    return f"{len(devices)} {word}{told} on {where}"
