"""Builds the QueueState that starts are simulated from, from a snapshot."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agents.contract.boards import Board
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.devices.options import device_options, gpu_board
from scheduler.core.forecast.hazard import Floats
from scheduler.core.forecast.queue_values import QueueState, RunningEntry, WaitingEntry
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.forecast.sampling import MIN_RATIOS
from scheduler.core.model.policy import OrderMode, Policy
from scheduler.core.model.snapshot import (
    PRIORITY_RANK,
    ClusterSnapshot,
    DeviceRequest,
    NodeView,
    PastRun,
    Priority,
    RunningJob,
    WaitingJob,
)
from scheduler.core.placement.node_eligibility import eligibility_key, is_eligible

# Future arrivals are drawn from this many of the newest ones.
RECENT_ARRIVALS = 200
# The size of a past slice or share: its own is not recorded.
SMALLEST_SLICE = UNITS_PER_GPU // 7

OwnerFactor = Callable[[str, str], float]


def queue_state(
    snapshot: ClusterSnapshot,
    policy: Policy,
    runtime_model: RuntimeModel,
    factor: OwnerFactor | None = None,
) -> QueueState:
    """The queue in the order of `policy`. `factor(project, user)` weighs owners in the fair order.

    CPU and memory count as the part of a node's GPUs that goes with them, if that is more than the
    requested GPUs. Left out: jobs on hold or with dependencies, quotas, preemption, and where on a
    node slices fit. Calibration corrects a constant part of that."""
    return _Builder(snapshot, policy, runtime_model, factor or _even).build()


class TrialQueueState:
    """The state of a queue, to which one more job at a time is added."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        policy: Policy,
        runtime_model: RuntimeModel,
        factor: OwnerFactor | None = None,
    ) -> None:
        self._builder = _Builder(snapshot, policy, runtime_model, factor or _even)
        self._state = self._builder.build()

    def with_job(self, job: WaitingJob) -> QueueState:
        """The queue with this job behind the others."""
        state, builder = self._state, self._builder
        queued = builder.queued(job)
        curves, pools = tuple(builder.curves), tuple(builder.pools)
        del builder.curves[len(state.curves) :]
        waiting = (*state.waiting, queued) if queued.units else state.waiting
        return replace(state, waiting=waiting, curves=curves, pools=pools)


def _even(project: str, user: str) -> float:
    return 1.0


@dataclass(frozen=True, slots=True)
class _Host:
    """What a node has in all; `units`: of its healthy GPUs."""

    cpu_milli: int
    memory_mib: int
    units: int

    @classmethod
    def of(cls, node: NodeView) -> "_Host":
        units = UNITS_PER_GPU * sum(gpu.healthy for gpu in node.gpus)
        return cls(node.cpu_total_milli, node.memory_total_mib, units)

    def share(self, cpu_milli: int, memory_mib: int) -> int:
        """Units of its GPUs that become unusable if this much CPU and memory is taken."""
        by_cpu = cpu_milli * self.units // max(1, self.cpu_milli)
        by_memory = memory_mib * self.units // max(1, self.memory_mib)
        return min(self.units, max(by_cpu, by_memory))


@dataclass
class _Builder:
    snapshot: ClusterSnapshot
    policy: Policy
    runtime_model: RuntimeModel
    factor: OwnerFactor
    nodes: list[NodeView] = field(default_factory=list)
    curves: list[Floats] = field(default_factory=list)
    pools: dict[tuple[bool, ...], int] = field(default_factory=dict)
    _seen: dict[object, tuple[int, int]] = field(default_factory=dict)
    _boards: list[tuple[Board, ...]] = field(default_factory=list)
    _hosts: dict[int, set[_Host]] = field(default_factory=dict)
    _ratios: tuple[tuple[float, float], ...] = ()

    def build(self) -> QueueState:
        snapshot, policy = self.snapshot, self.policy
        self._ratios = self.runtime_model.ratios.pairs()
        self.nodes = [node for node in snapshot.nodes if node.available]
        self._boards = [_boards(node) for node in self.nodes]
        index = {node.id: i for i, node in enumerate(self.nodes)}
        total = [UNITS_PER_GPU * sum(gpu.healthy for gpu in node.gpus) for node in self.nodes]
        free = list(total)
        running = [self._holding(held, index) for held in snapshot.running]
        for holding in running:
            for node, units in holding.places:
                free[node] = max(0, free[node] - units)
        waiting = [
            self.queued(job) for job in snapshot.jobs if not job.awaits_people and not job.after
        ]
        aging = policy.order is OrderMode.FAIR
        return QueueState(
            now=snapshot.now,
            total=tuple(total),
            free=tuple(free),
            running=tuple(holding for holding in running if holding.places),
            waiting=tuple(each for each in waiting if each.units),
            arrivals=tuple(each for each in self._arrivals() if each.units),
            pools=tuple(self.pools),
            ratios=self._ratios,
            curves=tuple(self.curves),
            ended_runs=self.runtime_model.runs,
            backfill=policy.backfill,
            patience_seconds=float(policy.patience_seconds) if aging else 0.0,
            by_arrival=policy.order is OrderMode.FIFO,
        )

    def _holding(self, held: RunningJob, index: dict[str, int]) -> RunningEntry:
        job = held.job
        here = [replica for replica in held.replicas if replica.node in index]
        taken = [sum(device.units for device in replica.devices) for replica in here]
        hosts = [_Host.of(self.nodes[index[replica.node]]) for replica in here]
        places = tuple(
            (index[replica.node], max(units, host.share(job.cpu_milli, job.memory_mib)))
            for replica, units, host in zip(here, taken, hosts, strict=True)
        )
        gpus = sum(taken) / UNITS_PER_GPU
        return RunningEntry(
            places=places,
            age=job.attained_seconds + max(0, self.snapshot.now - held.started_at),
            limit=float(job.time_limit_seconds),
            curve=self._curve(job, gpus),
            stopping=held.stopping,
        )

    def queued(self, job: WaitingJob) -> WaitingEntry:
        units, pool = self._shape(job)
        gpus = units * job.replicas / UNITS_PER_GPU
        units = max(units, self._host_share(job, pool)) if units else 0
        return WaitingEntry(
            id=job.id,
            queued_at=job.queued_at,
            replicas=job.replicas,
            units=units,
            limit=float(job.time_limit_seconds),
            age=job.attained_seconds,
            key=self._key(job, gpus),
            band=PRIORITY_RANK[job.priority],
            curve=self._curve(job, gpus),
            pool=pool,
            begin_at=float(job.begin_at),
        )

    def _key(self, job: WaitingJob, gpus: float) -> float:
        left = max(1, job.time_limit_seconds - job.attained_seconds)
        match self.policy.order:
            case OrderMode.FIFO:
                return float(job.queued_at)
            case OrderMode.SHORTEST:
                return float(left)
            case OrderMode.SMALLEST:
                return left * gpus
        work = self.runtime_model.work(job, gpus, self.snapshot.now)
        return work * self.factor(job.project, job.user)

    def _curve(self, job: WaitingJob, gpus: float) -> int:
        """-1 (by its limit) if that is believable and MIN_RATIOS ended runs are known."""
        if self.runtime_model.believes_limit(job) and len(self._ratios) >= MIN_RATIOS:
            return -1
        self.curves.append(self.runtime_model.hazard_curve(job, gpus))
        return len(self.curves) - 1

    def _shape(self, job: WaitingJob) -> tuple[int, int]:
        """Units of a replica with its cheapest option, and its pool of nodes."""
        alike = (job.device, eligibility_key(job))
        if alike not in self._seen:
            known = {boards: device_options(job.device, boards) for boards in set(self._boards)}
            ways = [known[boards] for boards in self._boards]
            units = min((way[0].replica_units for way in ways if way), default=0)
            here = tuple(
                bool(way) and is_eligible(node, job)
                for way, node in zip(ways, self.nodes, strict=True)
            )
            self._seen[alike] = units, self.pools.setdefault(here, len(self.pools))
        return self._seen[alike]

    def _host_share(self, job: WaitingJob, pool: int) -> int:
        """On the nodes of its pool that have most CPU and memory for a GPU."""
        if pool not in self._hosts:
            here = list(self.pools)[pool]
            self._hosts[pool] = {_Host.of(n) for n, ok in zip(self.nodes, here, strict=True) if ok}
        shares = (host.share(job.cpu_milli, job.memory_mib) for host in self._hosts[pool])
        return min(shares, default=0)

    def _arrivals(self) -> list[WaitingEntry]:
        """The newest submissions among ended, running and waiting jobs."""
        snapshot = self.snapshot
        found: list[tuple[float, PastRun | WaitingJob]] = [
            (run.queued_at or run.ended_at - run.ran_seconds, run) for run in snapshot.history
        ]
        found += [(held.job.queued_at, held.job) for held in snapshot.running]
        found += [(job.queued_at, job) for job in snapshot.jobs]
        found.sort(key=lambda pair: pair[0])
        return [
            self._past(run, at) if isinstance(run, PastRun) else self.queued(run)
            for at, run in found[-RECENT_ARRIVALS:]
        ]

    def _past(self, run: PastRun, at: float) -> WaitingEntry:
        """A past run as if it came again, split evenly over as few nodes as possible."""
        most = max((len(node.gpus) for node in self.nodes), default=1) or 1
        replicas = -(-run.gpus // most) or 1
        job = WaitingJob(
            id="",
            name=run.group,
            project=run.project,
            user=run.user,
            priority=Priority.NORMAL,
            queued_at=int(at),
            replicas=replicas,
            device=DeviceRequest(gpus=-(-run.gpus // replicas) or 1),
            cpu_milli=0,
            memory_mib=0,
            time_limit_seconds=run.limit_seconds,
            limit_is_chosen=run.limit_is_chosen,
            group=run.group,
        )
        units, pool = self._shape(job)
        if not run.gpus:
            units = min(units, SMALLEST_SLICE)
        gpus = units * replicas / UNITS_PER_GPU
        return WaitingEntry(
            id="",
            queued_at=at,
            replicas=replicas,
            units=units,
            limit=float(run.limit_seconds),
            key=self._key(job, gpus),
            band=PRIORITY_RANK[Priority.NORMAL],
            curve=self._curve(job, gpus),
            pool=pool,
        )


def _boards(node: NodeView) -> tuple[Board, ...]:
    """The kinds of its healthy GPUs."""
    found = {(gpu.board, gpu.product_name): gpu for gpu in node.gpus if gpu.healthy}
    return tuple(sorted({gpu_board(gpu) for gpu in found.values()}, key=lambda board: board.key))
