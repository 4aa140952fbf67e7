"""What a waiting job asks for, worked out once for all jobs that ask for the same."""

from dataclasses import dataclass, replace

from agents.contract.documents import SliceKind
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.devices.options import DeviceOption, device_options
from scheduler.core.model.message import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.placement.feasibility import ClusterCapacity

# Asks of jobs that left the queue are forgotten when so many have.
FORGET_AFTER = 1_000


@dataclass(frozen=True, slots=True)
class Requirements:
    """`ways`: what could serve it, the cheapest first. `gpus`: of the cheapest, all replicas
    together. `alike`: jobs with the same find the same places. `boards`: of all ways."""

    options: list[DeviceOption]
    gpus: float
    equivalence_key: tuple[object, ...]
    boards: frozenset[str] = frozenset()


class RequirementsTable:
    """The asks of one pass."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._capacity = ClusterCapacity(snapshot)
        self._known: dict[object, Requirements] = {}
        self._by_job: dict[str, tuple[WaitingJob, Requirements]] = {}
        self._never: dict[object, Reason | None] = {}
        self._unpaid: dict[object, Reason | None] = {}

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Go on with a snapshot of the same hardware."""
        self._capacity.quotas = snapshot.quotas
        self._unpaid.clear()
        if len(self._by_job) > 2 * len(snapshot.jobs) + FORGET_AFTER:
            self._by_job.clear()

    def of(self, job: WaitingJob) -> Requirements:
        seen, ask = self._by_job.get(job.id, (None, None))
        if seen is not job or ask is None:
            ask = self._of(job)
            self._by_job[job.id] = (job, ask)
        return ask

    def _of(self, job: WaitingJob) -> Requirements:
        key = (
            *(job.device, job.replicas, job.cpu_milli, job.memory_mib, job.topology),
            *(job.processes, job.needs, job.tolerates, job.disk_mib),
        )
        ask = self._known.get(key)
        if ask is None:
            ask = self._known[key] = self._make(job)
        if any(want.kind is SliceKind.MPS for want in ask.options):
            # Who may share with whom depends on the project.
            return replace(ask, equivalence_key=(*ask.equivalence_key, job.project))
        return ask

    def gpus(self, job: WaitingJob) -> float:
        return self.of(job).gpus

    def options(self, job: WaitingJob) -> list[DeviceOption]:
        return self.of(job).options

    def impossible_reason(self, job: WaitingJob, ask: Requirements) -> Reason | None:
        """Why nothing here could ever serve the job, or its owner's quota never pay for it."""
        what = ask.equivalence_key[0]
        if what not in self._never:
            reason = self._capacity.device_reason(job) or (None if ask.options else _NO_NODES)
            self._never[what] = reason
        if reason := self._never[what]:
            return reason
        if not self._capacity.quotas:
            return None
        key = (*ask.equivalence_key, job.project, job.user)
        if key not in self._unpaid:
            self._unpaid[key] = self._capacity.quota_reason(job)
        return self._unpaid[key]

    def _make(self, job: WaitingJob) -> Requirements:
        ways = device_options(job.device, self._capacity.boards)
        gpus = ways[0].replica_units * job.replicas / UNITS_PER_GPU if ways else 0.0
        return Requirements(ways, gpus, (len(self._known),), frozenset(want.board for want in ways))


_NO_NODES = Reason(
    ReasonCode.NODE_UNAVAILABLE,
    make_message("node_unavailable.none"),
    {},
    make_message("unblocks.node_added"),
)
