"""What the planning worker does for pages after its passes: it publishes the counts of what is
free."""

import gc
import statistics
import time
from dataclasses import replace
from typing import Any

from django.utils import timezone

from portal.availability.models import PublishedCounts
from portal.availability.published import counts_publish
from portal.planning.planner_input import planner_input
from portal.planning.snapshot_cache import row_count
from portal.quotas.policy import current_policy
from scheduler.core.availability.cluster import cluster_availability
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.plan import plan_and_places
from scheduler.tasks import gc_paused

# The sweep has a pass made this often.
PUBLISH_SECONDS = 5


class Publisher:
    """Publishes every five seconds. The pass and the count are made once, on creation."""

    def __init__(self) -> None:
        policy, now = current_policy(), timezone.now()
        snapshot = planner_input(now=now, policy=policy)
        plan, places = plan_and_places(snapshot, policy, RuntimeModel.from_snapshot(snapshot))
        began = time.perf_counter()
        with gc_paused():
            self._counts = cluster_availability(
                snapshot, places, plan.merges, can_merge=policy.merge
            )
        self.count_ms = round((time.perf_counter() - began) * 1000, 1)
        self._rows, self._published = row_count(snapshot), -float(PUBLISH_SECONDS)
        self.publish_ms: list[float] = []
        del snapshot, plan, places
        gc.collect()  # a web process has no pass to clean up

    def publish_if_due(self) -> None:
        began = time.perf_counter()
        if began - self._published < PUBLISH_SECONDS:
            return
        self._published = began
        counts_publish(self._rows, lambda: replace(self._counts, at=int(time.time())))
        self.publish_ms.append((time.perf_counter() - began) * 1000)

    def result(self) -> dict[str, Any]:
        """What the worker spends on it after a pass, in ms, and the size of the document."""
        document = PublishedCounts.objects.values_list("document", flat=True).first() or ""
        return {
            "count_ms": self.count_ms,
            "publish_p50_ms": round(statistics.median(self.publish_ms), 1),
            "published": len(self.publish_ms),
            "bytes": len(document),
        }
