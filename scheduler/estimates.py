"""What waiting jobs are told beside their reason: when they will start, and what would start now.

It follows a planning pass as a task of its own, so it never delays a placement. It plans once more
on fresh rows, commits nothing of that, and writes only what people read.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from portal.planning.alternatives import alternatives_write
from portal.planning.estimates import estimates_tidy, estimates_write, past_estimates
from portal.planning.history_cache import process_history
from portal.planning.planner_input import planner_input
from portal.quotas.policy import current_policy
from scheduler.core.devices.options import gpu_board
from scheduler.core.explain.alternatives import ALTERABLE, CanStart, alternatives
from scheduler.core.forecast.pass_estimates import estimate_starts
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.decisions import Plan
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.plan import plan_and_can_start

# While the same jobs wait it is worked out again after so many seconds; else after a few.
SAME_QUEUE_SECONDS, OTHER_QUEUE_SECONDS = 15, 3
# Alternatives are looked for to so many jobs, the front of the queue first.
MOST_JOBS = 50
# Times that pass change what a shorter job could do, so answers are not kept longer than this.
KEPT_SECONDS = 60
StoredAlternatives = list[dict[str, Any]]


@dataclass(slots=True)
class EstimatePace:
    """Which jobs waited when this process last asked, and when, in seconds since the epoch."""

    queue: frozenset[str] = frozenset()
    at: int = 0

    def is_due(self, snapshot: ClusterSnapshot, plan: Plan) -> bool:
        """Whether it is time to tell again; then it counts as done. Nobody waits: never."""
        queue = frozenset(hold.job for hold in plan.deferrals)
        least = SAME_QUEUE_SECONDS if queue == self.queue else OTHER_QUEUE_SECONDS
        if not queue or 0 <= snapshot.now - self.at < least:
            return False
        self.queue, self.at = queue, snapshot.now
        return True


@dataclass(slots=True)
class AlternativesCache:
    """Alternatives by what was asked, as long as the cluster stays as it was at `at`."""

    cluster: object = None
    at: int = 0
    by_request: dict[object, StoredAlternatives] = field(default_factory=dict)

    def refresh(self, snapshot: ClusterSnapshot, plan: Plan) -> None:
        """Forget everything if the cluster is another one, or too much time has passed."""
        cluster = (
            *(
                snapshot.nodes,
                snapshot.quotas,
                plan.placements,
                plan.preemptions,
                plan.reservations,
            ),
            tuple((run.job.id, run.stopping) for run in snapshot.running),
        )
        if cluster != self.cluster or not 0 <= snapshot.now - self.at < KEPT_SECONDS:
            self.cluster, self.at = cluster, snapshot.now
            self.by_request.clear()


_tried = AlternativesCache()


def estimates_refresh(now: datetime | None = None) -> None:
    """Tell the jobs that wait now."""
    now = now or timezone.now()
    policy = current_policy()
    lately = process_history()
    with lately.lock:
        lately.refresh(now)
    snapshot = planner_input(now=now, policy=policy, history=lately)
    outlook = RuntimeModel.from_snapshot(snapshot)
    plan, can_start = plan_and_can_start(snapshot, policy, outlook)
    alternatives_write(alternatives_of(snapshot, plan, can_start, _tried))
    estimates_write(estimate_starts(snapshot, policy, outlook, plan, past_estimates(now)), now)
    estimates_tidy()


def alternatives_of(
    snapshot: ClusterSnapshot, plan: Plan, can_start: CanStart, cache: AlternativesCache
) -> dict[int, StoredAlternatives]:
    """By job: what would start now instead, each tried by the planner; maybe nothing. Only of the
    first MOST_JOBS whose request can help."""
    cache.refresh(snapshot, plan)
    jobs = {job.id: job for job in snapshot.jobs}
    boards = {gpu_board(gpu) for node in snapshot.nodes for gpu in node.gpus}
    in_order = sorted(boards, key=lambda board: board.key)
    first = [hold.job for hold in plan.deferrals if hold.reason.code in ALTERABLE][:MOST_JOBS]
    told = {}
    for job in (jobs[id] for id in first):
        key = _alike(job)
        if key not in cache.by_request:
            found = alternatives(job, in_order, can_start)
            cache.by_request[key] = [one.as_dict() for one in found]
        told[int(job.id)] = cache.by_request[key]
    return told


def _alike(job: WaitingJob) -> object:
    """Jobs with the same could do the same instead."""
    return (
        *(job.device, job.replicas, job.cpu_milli, job.memory_mib, job.topology, job.processes),
        *(job.disk_mib, job.needs, job.tolerates),
        *(job.project, job.user, job.priority, job.preemptible),
        *(job.time_limit_seconds, job.attained_seconds),
    )
