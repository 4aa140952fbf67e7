"""Which gangs are checked before they start, and with what. Asked when a placement is committed."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from portal.allocations.services import GangOrder
from portal.inventory.models import Node
from portal.jobs.failure_causes import GangFailure
from portal.jobs.models import Attempt, Job, StopReason
from portal.jobs.preflights import HAS_RESULT, stored_preflight
from portal.node_pairs.expectations import RING_COMMAND, is_simulated
from portal.node_pairs.models import PairMeasurement
from portal.preflights.pair_rounds import ring_neighbours
from scheduler.core.request.values import GangPreflight

# Sizes from where bandwidth counts; each sum is checked. Some seconds, and a minute if it is slow.
NCCL_OPTIONS = ("-b", "8M", "-e", "512M", "-f", "2", "-c", "1", "-n", "10")
NCCL_COMMAND = ("all_reduce_perf", *NCCL_OPTIONS)


def gangs_with_preflights(
    gangs: Sequence[GangOrder], *, image: str, hours: int, now: datetime
) -> list[GangOrder]:
    """The gangs, each that is to be checked first with what it runs for that. Asks nothing where no
    job wants it. `image`: of the settings, empty if there is none; `hours`: for so long a
    measurement of a pair counts."""
    since = now - timedelta(hours=hours)
    return [
        replace(gang, preflight=_preflight(gang, since, image)) if _asks(gang.job) else gang
        for gang in gangs
    ]


def _asks(job: Job) -> bool:
    return bool(job.request.get("preflight") == GangPreflight.ALL_REDUCE)


def _preflight(gang: GangOrder, since: datetime, image: str) -> dict[str, Any] | None:
    nodes = {UUID(replica.node) for replica in gang.replicas}
    if not image or len(nodes) < 2 or _were_measured(nodes, since) or _gave_no_result(gang.job):
        return None
    return stored_preflight(image=image, command=_command(nodes))


def _command(nodes: Collection[UUID]) -> tuple[str, ...]:
    found = Node.objects.filter(pk__in=nodes).only("facts")
    return RING_COMMAND if is_simulated(*found) else NCCL_COMMAND


def _were_measured(nodes: Collection[UUID], since: datetime) -> bool:
    """Whether each pair of neighbours of their ring was: well, or so that the planner avoids it
    where it can."""
    rows = PairMeasurement.objects.current().filter(first__in=nodes, second__in=nodes)
    found = rows.filter(finished_at__gte=since).values_list("first", "second")
    in_order = Node.objects.filter(pk__in=nodes).order_by("name").values_list("pk", flat=True)
    wanted = {frozenset(pair) for pair in ring_neighbours(list(in_order))}
    return wanted <= {frozenset(pair) for pair in found}


def _gave_no_result(job: Job) -> bool:
    """Whether a check of this job has failed, not the network: there is no second one."""
    checks = Attempt.objects.filter(job=job, preflight__isnull=False)
    for outcome, failure, preflight in checks.values_list("outcome", "first_failure", "preflight"):
        is_bad_network = (failure or {}).get("code") == GangFailure.NETWORK_CHECK
        if outcome == StopReason.FAILED and not is_bad_network:
            return True
        if not (preflight or {}).get(HAS_RESULT, True):
            return True
    return False
