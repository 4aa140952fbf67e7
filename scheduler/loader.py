"""Reads rows into the snapshot of one planning pass, in a constant number of queries."""

from datetime import datetime

from portal.planning.history_cache import Lately
from portal.planning.snapshot import cluster_snapshot, queue
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot

# One pass looks at this many waiting jobs, the oldest ones: nobody is left out for ever.
MAX_JOBS_PER_PASS = 10_000


def load(*, now: datetime, policy: Policy, lately: Lately | None = None) -> ClusterSnapshot:
    """The whole cluster, the front of the queue, and what was used and asked for lately, of which
    the caller may keep something from one pass to the next."""
    return cluster_snapshot(
        now=now,
        jobs=queue()[:MAX_JOBS_PER_PASS],
        half_life_seconds=policy.half_life_seconds,
        lately=lately,
    )
