"""Quota that the last planning pass keeps for jobs which still wait."""

from collections.abc import Collection

from portal.availability.published import published_counts
from portal.jobs.models import Job
from portal.planning.snapshot_cache import current_snapshot
from scheduler.core.availability.cluster import ClusterAvailability
from scheduler.core.quota.promises import QuotaPromise


def current_promises(projects: Collection[str]) -> list[QuotaPromise]:
    """Those of these projects. Where none of their jobs is queued there is none, and a small
    cluster, whose counts nobody publishes, is not read for it."""
    counts = published_counts()
    if counts is None:
        if not Job.objects.queued().filter(project__slug__in=projects).exists():
            return []
        counts = current_snapshot().availability
    return waiting_promises(counts, projects)


def waiting_promises(cluster: ClusterAvailability, projects: Collection[str]) -> list[QuotaPromise]:
    """Those of these projects. One query, or none where nothing is kept for them or nothing has
    happened since the count: a job that has started meanwhile holds what was promised to it."""
    found = [promise for promise in cluster.promises if promise.project in projects]
    if not found or not cluster.may_lag:
        return found
    keys = [int(promise.job) for promise in found]
    waiting = set(Job.objects.waiting().filter(pk__in=keys).values_list("pk", flat=True))
    return [promise for promise in found if int(promise.job) in waiting]
