"""How many replicas a job may have: one number, or the fewest and the most."""

from collections.abc import Mapping
from typing import Any

from portal.jobs.models import Job


def replica_range(request: Mapping[str, Any]) -> tuple[int, int]:
    """The fewest and the most of a stored request; twice the same if it names one number."""
    replicas = request.get("replicas", 1)
    if isinstance(replicas, Mapping):
        return int(replicas["min"]), int(replicas["max"])
    return int(replicas), int(replicas)


def has_several_sizes(job: Job) -> bool:
    least, most = replica_range(job.request)
    return least < most
