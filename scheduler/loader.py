"""Reads rows into the snapshot of one planning pass, in a constant number of queries."""

from datetime import datetime

from portal.jobs.lately import Lately
from portal.jobs.snapshot import cluster_snapshot, queue
from scheduler.core.policy import Policy
from scheduler.core.values import ClusterSnapshot

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
