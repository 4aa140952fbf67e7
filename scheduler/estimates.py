"""When waiting jobs are expected to start, when their waits end at the latest, and what would start
them now: a changed request, or one of their owner's own jobs stopped.

A task of its own after a planning pass, so that it never delays a placement. It plans once more on
fresh rows, commits nothing of that plan, and writes only what people read.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from portal.planning.estimates import estimates_tidy, estimates_write, past_estimates
from portal.planning.history_cache import process_history
from portal.planning.node_cache import process_nodes
from portal.planning.planner_input import planner_input
from portal.planning.reason_additions import additions_write
from portal.quotas.policy import current_policy
from scheduler.core.devices.options import node_boards
from scheduler.core.explain.alternatives import CanStart, alternatives
from scheduler.core.explain.bounds import QUOTA_CODES, WaitBounds
from scheduler.core.forecast.pass_estimates import after_plan, estimate_starts
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.forecast.track_record import Disclosure
from scheduler.core.model.decisions import Plan
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.pass_cache import PassCache
from scheduler.core.placement.node_eligibility import eligibility_key
from scheduler.core.plan import Pass

# How long estimates stand while the same jobs wait, and after the queue has changed.
SAME_QUEUE_SECONDS, CHANGED_QUEUE_SECONDS = 15, 3
# Alternatives are tried for this many jobs, from the front of the queue.
MAX_JOBS = 50
# As time passes, a shorter job may fit before a reservation: alternatives are tried again after it.
MAX_AGE_SECONDS = 60
# Jobs of the same owner that a waiting job names, each of which would let it start if it stopped.
MAX_STOPS, MAX_STOPS_TRIED = 2, 6
Stored = list[dict[str, Any]]


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
    by_request: dict[object, Stored] = field(default_factory=dict)

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


def estimates_refresh(
    now: datetime | None = None, *, between_steps: Callable[[], object] = lambda: None
) -> None:
    """Write estimates and alternatives of the jobs that wait now. `between_steps` is called between
    what takes long in a long queue."""
    now = now or timezone.now()
    policy, history = current_policy(), process_history()
    with history.lock:
        history.refresh(now)
    snapshot = planner_input(now=now, policy=policy, history=history, nodes=process_nodes())
    model = RuntimeModel.from_snapshot(snapshot)
    finished = Pass(snapshot, policy, model, PassCache())
    between_steps()
    plan = finished.run()
    between_steps()
    estimates = estimate_starts(snapshot, policy, model, plan, past_estimates(now))
    between_steps()
    expected = {id: e.expected for id, e in estimates.items() if e.is_published}
    bounds = WaitBounds(after_plan(snapshot, plan), plan, expected)
    additions_write(
        alternatives=alternatives_of(snapshot, plan, finished.can_start, _cache),
        stops=stops_of(plan, bounds, finished),
        bounds={int(d.job): bound.as_dict() for d in plan.deferrals if (bound := bounds.of(d))},
        far_off=[
            int(id) for id, e in estimates.items() if e.track.disclosure is Disclosure.NOTHING
        ],
    )
    between_steps()
    estimates_write(estimates, now)
    estimates_tidy()


def stops_of(plan: Plan, bounds: WaitBounds, finished: Pass) -> dict[int, Stored]:
    """By job that waits for quota: running jobs of its owner without which it would start at once,
    each tried by the planner. Only for the first MAX_JOBS."""
    jobs = {job.id: job for job in finished.state.snapshot.jobs}
    short = [d for d in plan.deferrals if d.reason.code in QUOTA_CODES][:MAX_JOBS]
    by_job: dict[int, Stored] = {}
    for deferral in short:
        found = [
            {
                "job": run.job.id,
                "name": run.job.name,
                "started_at": run.started_at,
                "preemptible": run.job.preemptible,
            }
            for run in bounds.stops(deferral)[:MAX_STOPS_TRIED]
            if finished.can_start_without(jobs[deferral.job], run)
        ]
        if found:
            by_job[int(deferral.job)] = found[:MAX_STOPS]
    return by_job


def alternatives_of(
    snapshot: ClusterSnapshot, plan: Plan, can_start: CanStart, cache: AlternativesCache
) -> dict[int, Stored]:
    """By job: the changed requests that would start now, each tried by the planner. An empty list
    if none would. Only for the first MAX_JOBS whose request can help."""
    cache.refresh(snapshot, plan)
    jobs = {job.id: job for job in snapshot.jobs}
    boards = node_boards(snapshot.nodes)
    alterable = [d.job for d in plan.deferrals if d.reason.code.kind.is_alterable]
    by_job = {}
    for job in (jobs[id] for id in alterable[:MAX_JOBS]):
        key = _request_key(job)
        if key not in cache.by_request:
            tried = alternatives(job, boards, can_start)
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
