"""The requirements of a waiting job, worked out once for all jobs that request the same."""

from dataclasses import dataclass, replace

from agents.contract.documents import SliceKind
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.devices.options import DeviceOption, device_options
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.placement.feasibility import ClusterCapacity, combination_reason
from scheduler.core.placement.node_eligibility import eligibility_key

# The table forgets jobs that left the queue once this many have.
FORGET_AFTER = 1_000


@dataclass(frozen=True, slots=True)
class Requirements:
    options: list[DeviceOption]
    """Devices that could serve a replica, cheapest first."""
    gpus: float
    """GPUs of the cheapest option, all replicas together."""
    equivalence_key: tuple[object, ...]
    """Jobs with equal keys find the same places."""
    boards: frozenset[str] = frozenset()
    """Board keys of all options."""
    refusal: Reason | None = None
    """Why what the job requests does not go together."""


class RequirementsTable:
    """Requirements by job, kept from pass to pass over the same hardware."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._capacity = ClusterCapacity(snapshot)
        self._by_request: dict[object, Requirements] = {}
        self._by_job: dict[str, tuple[WaitingJob, Requirements]] = {}
        self._infeasible: dict[object, Reason | None] = {}
        self._over_quota: dict[object, Reason | None] = {}

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Continue with a snapshot of the same hardware."""
        self._capacity.quotas = snapshot.quotas
        self._over_quota.clear()
        if len(self._by_job) > 2 * len(snapshot.jobs) + FORGET_AFTER:
            self._by_job.clear()

    def of(self, job: WaitingJob) -> Requirements:
        cached, requirements = self._by_job.get(job.id, (None, None))
        if cached is not job or requirements is None:
            requirements = self._of(job)
            if refusal := combination_reason(job):
                requirements = replace(requirements, refusal=refusal)
            self._by_job[job.id] = (job, requirements)
        return requirements

    def _of(self, job: WaitingJob) -> Requirements:
        key = (
            *(job.device, job.replicas, job.cpu_milli, job.memory_mib, job.topology),
            *(job.processes, job.disk_mib, eligibility_key(job)),
        )
        requirements = self._by_request.get(key)
        if requirements is None:
            requirements = self._by_request[key] = self._make(job)
        if any(option.kind is SliceKind.MPS for option in requirements.options):
            # Shares of a GPU belong to one project.
            equivalence_key = (*requirements.equivalence_key, job.project)
            return replace(requirements, equivalence_key=equivalence_key)
        return requirements

    def gpus(self, job: WaitingJob) -> float:
        return self.of(job).gpus

    def options(self, job: WaitingJob) -> list[DeviceOption]:
        return self.of(job).options

    def impossible_reason(self, job: WaitingJob, requirements: Requirements) -> Reason | None:
        """Why the job can never start: no device here could serve it, its quota is too small, or
        what it requests does not go together. None: it can."""
        if requirements.refusal:
            return requirements.refusal
        request = requirements.equivalence_key[0]
        if request not in self._infeasible:
            reason = self._capacity.device_reason(job)
            self._infeasible[request] = reason or (None if requirements.options else _NO_NODES)
        if reason := self._infeasible[request]:
            return reason
        if not self._capacity.quotas:
            return None
        key = (*requirements.equivalence_key, job.project, job.user)
        if key not in self._over_quota:
            self._over_quota[key] = self._capacity.quota_reason(job)
        return self._over_quota[key]

    def _make(self, job: WaitingJob) -> Requirements:
        options = device_options(job.device, self._capacity.boards)
        gpus = options[0].replica_units * job.replicas / UNITS_PER_GPU if options else 0.0
        boards = frozenset(option.board for option in options)
        return Requirements(options, gpus, (len(self._by_request),), boards)


_NO_NODES = Reason(
    ReasonCode.NODE_UNAVAILABLE,
    make_message("node_unavailable.none"),
    {},
    make_message("unblocks.node_added"),
)
