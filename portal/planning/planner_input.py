"""Everything that one planning pass reads: the cluster, the front of the queue, and history."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import QuerySet

from portal.allocations.budgets import current_budgets
from portal.database.kept_queries import KeptSelect
from portal.gang_networks.selectors import largest_gang
from portal.images.needs_cache import image_needs_refresh
from portal.jobs.models import Job
from portal.node_pairs.selectors import pair_facts
from portal.planning.elastic_jobs import with_releasing, with_saved
from portal.planning.history_cache import HistoryCache
from portal.planning.node_cache import NodeCache
from portal.planning.requests import (
    SELECTED,
    waiting_jobs_from_columns,
    waiting_jobs_from_queryset,
)
from portal.planning.running import running_jobs
from portal.planning.snapshot import quota_views
from portal.planning.usage import owners
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import (
    MAX_GANG,
    ClusterSnapshot,
    NodeView,
    RunningJob,
    WaitingJob,
)

# The oldest waiting jobs come first, so no job is left out for ever.
MAX_JOBS_PER_PASS = 10_000


def planner_input(
    *,
    now: datetime,
    policy: Policy,
    history: HistoryCache | None = None,
    nodes: NodeCache | None = None,
    jobs: QuerySet[Job] | None = None,
) -> ClusterSnapshot:
    """The snapshot of one pass, in a constant number of queries.

    `history`, `nodes`: what the caller keeps between passes; without them, all is read from the
    rows.
    `jobs`: the queue; by default the first MAX_JOBS_PER_PASS queued jobs.
    """
    image_needs_refresh(now)
    nodes, history = nodes or NodeCache(), history or HistoryCache()
    with nodes.lock:
        nodes.refresh()
        views, live = nodes.views, nodes.live
    with history.lock:
        mix, past_runs = history.current(now)
        owned = owners(live, now, policy.half_life_seconds, history.usage)
    waiting = (
        waiting_jobs_from_columns(_FRONT.rows())
        if jobs is None
        else waiting_jobs_from_queryset(jobs)
    )
    pairs, running = pair_facts(waiting), running_jobs(live, now)
    return ClusterSnapshot(
        now=int(now.timestamp()),
        nodes=views,
        quotas=quota_views(),
        jobs=with_releasing(pairs.with_nodes(waiting), live, views, now),
        running=with_saved(running),
        budgets=current_budgets(now),
        owners=owned,
        mix=mix,
        history=past_runs,
        largest_networked_gang=_largest_gang(waiting, running, views),
        slow_pairs=pairs.slow_pairs,
    )


def _largest_gang(
    waiting: Iterable[WaitingJob], running: Iterable[RunningJob], nodes: Iterable[NodeView]
) -> int:
    """One query, only where a gang waits, or one may grow, and nodes join gangs by networks of
    their own."""
    is_gang = any(job.replicas > 1 or job.sizes for job in waiting)
    if (is_gang or any(run.job.sizes for run in running)) and any(node.overlay for node in nodes):
        return min(MAX_GANG, largest_gang())
    return MAX_GANG


def queued_jobs() -> QuerySet[Job]:
    """The jobs that wait for a place, oldest first."""
    return Job.objects.queued().order_by("queued_at", "id")


_FRONT = KeptSelect(lambda: queued_jobs()[:MAX_JOBS_PER_PASS].values_list(*SELECTED))
