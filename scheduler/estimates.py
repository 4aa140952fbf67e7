"""When waiting jobs are expected to start, and which changed requests would start now.

A task of its own after a planning pass, so that it never delays a placement. It plans once more on
fresh rows, commits nothing of that plan, and writes only what people read.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from portal.planning.alternatives import alternatives_write
from portal.planning.estimates import estimates_tidy, estimates_write, past_estimates
from portal.planning.history_cache import process_history
from portal.planning.node_cache import process_nodes
from portal.planning.planner_input import planner_input
from portal.quotas.policy import current_policy
from scheduler.core.devices.options import gpu_board
from scheduler.core.explain.alternatives import CanStart, alternatives
from scheduler.core.forecast.pass_estimates import estimate_starts
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.decisions import Plan
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.placement.node_eligibility import eligibility_key
from scheduler.core.plan import plan_and_can_start

# How long estimates stand while the same jobs wait, and after the queue has changed.
SAME_QUEUE_SECONDS, CHANGED_QUEUE_SECONDS = 15, 3
# Alternatives are tried for this many jobs, from the front of the queue.
MAX_JOBS = 50
# As time passes, a shorter job may fit before a reservation: alternatives are tried again after it.
MAX_AGE_SECONDS = 60
StoredAlternatives = list[dict[str, Any]]


@dataclass(slots=True)
class EstimatePace:
    """When this process last requested estimates, and for which jobs."""

    queue: frozenset[str] = frozenset()
    at: int = 0
    """Seconds since the epoch."""

    def is_due(self, snapshot: ClusterSnapshot, plan: Plan) -> bool:
        """Whether to estimate again; True counts as done. Never while no job waits."""
        queue = frozenset(deferral.job for deferral in plan.deferrals)
        pause = SAME_QUEUE_SECONDS if queue == self.queue else CHANGED_QUEUE_SECONDS
        if not queue or 0 <= snapshot.now - self.at < pause:
            return False
        self.queue, self.at = queue, snapshot.now
        return True

    def reset(self) -> None:
        """Forget the last time: tests change the database."""
        self.queue, self.at = frozenset(), 0


@dataclass(slots=True)
class AlternativesCache:
    """Alternatives by request, valid while the cluster stays as it was at `at`."""

    cluster: object = None
    at: int = 0
    by_request: dict[object, StoredAlternatives] = field(default_factory=dict)

    def refresh(self, snapshot: ClusterSnapshot, plan: Plan) -> None:
        """Clear the cache if the cluster has changed or the entries are too old."""
        cluster = (
            *(snapshot.nodes, snapshot.quotas),
            *(plan.placements, plan.preemptions, plan.reservations),
            tuple((run.job.id, run.stopping) for run in snapshot.running),
        )
        if cluster != self.cluster or not 0 <= snapshot.now - self.at < MAX_AGE_SECONDS:
            self.cluster, self.at = cluster, snapshot.now
            self.by_request.clear()


_cache = AlternativesCache()


def estimates_refresh(now: datetime | None = None) -> None:
    """Write estimates and alternatives of the jobs that wait now."""
    now = now or timezone.now()
    policy, history = current_policy(), process_history()
    with history.lock:
        history.refresh(now)
    snapshot = planner_input(now=now, policy=policy, history=history, nodes=process_nodes())
    model = RuntimeModel.from_snapshot(snapshot)
    plan, can_start = plan_and_can_start(snapshot, policy, model)
    alternatives_write(alternatives_of(snapshot, plan, can_start, _cache))
    estimates_write(estimate_starts(snapshot, policy, model, plan, past_estimates(now)), now)
    estimates_tidy()


def alternatives_of(
    snapshot: ClusterSnapshot, plan: Plan, can_start: CanStart, cache: AlternativesCache
) -> dict[int, StoredAlternatives]:
    """By job: the changed requests that would start now, each tried by the planner. An empty list
    if none would. Only for the first MAX_JOBS whose request can help."""
    cache.refresh(snapshot, plan)
    jobs = {job.id: job for job in snapshot.jobs}
    boards = {gpu_board(gpu) for node in snapshot.nodes for gpu in node.gpus}
    in_order = sorted(boards, key=lambda board: board.key)
    alterable = [d.job for d in plan.deferrals if d.reason.code.kind.is_alterable]
    by_job = {}
    for job in (jobs[id] for id in alterable[:MAX_JOBS]):
        key = _request_key(job)
        if key not in cache.by_request:
            tried = alternatives(job, in_order, can_start)
            cache.by_request[key] = [alternative.as_dict() for alternative in tried]
        by_job[int(job.id)] = cache.by_request[key]
    return by_job


def _request_key(job: WaitingJob) -> object:
    """Jobs with equal keys have the same alternatives."""
    return (
        *(job.device, job.replicas, job.cpu_milli, job.memory_mib, job.topology, job.processes),
        *(job.disk_mib, eligibility_key(job)),
        *(job.project, job.user, job.priority, job.preemptible),
        *(job.time_limit_seconds, job.attained_seconds),
    )
