"""What the planner and admins need to know of measured pairs."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from django.db.models import Q

from portal.inventory.models import Node
from portal.node_pairs.models import PairMeasurement, PairMeasurementQuerySet
from scheduler.core.model.snapshot import NodePair, WaitingJob

# Newest measurements of one node that are looked through for its pairs.
MAX_READ = 200


@dataclass(frozen=True, slots=True)
class PairFacts:
    """What a planning pass needs to know of pairs."""

    slow_pairs: tuple[NodePair, ...] = ()
    only_nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By the id of a job that measures: the names of its nodes."""

    def with_nodes(self, jobs: tuple[WaitingJob, ...]) -> tuple[WaitingJob, ...]:
        """The jobs; each that measures runs on its nodes alone."""
        if not self.only_nodes:
            return jobs
        nodes = self.only_nodes
        return tuple(
            replace(job, only_nodes=nodes[job.id]) if job.id in nodes else job for job in jobs
        )


def pair_facts(jobs: Iterable[WaitingJob]) -> PairFacts:
    """One query, only where a gang waits."""
    if not any(job.replicas > 1 for job in jobs):
        return PairFacts()
    rows = PairMeasurement.objects.bad() | PairMeasurement.objects.unfinished()
    slow: list[NodePair] = []
    only: dict[str, tuple[str, ...]] = {}
    columns = ("is_current", "job_id", "first__name", "second__name")
    for is_current, job, first, second in rows.order_by("id").values_list(*columns):
        if is_current:
            slow.append(NodePair(first, second))
        else:
            only[str(job)] = (first, second)
    return PairFacts(tuple(slow), only)


def measurements() -> PairMeasurementQuerySet:
    """Newest first, with their nodes and jobs."""
    rows = PairMeasurement.objects.select_related("first", "second", "job", "attempt__job")
    return rows.defer(
        *(f"{node}__{name}" for node in ("first", "second") for name in ("desired", "topology")),
        *("job__request", "attempt__job__request"),
    ).order_by("-id")


def bad_pairs() -> PairMeasurementQuerySet:
    """Those that gangs avoid, of nodes that are not retired."""
    return measurements().bad().of_active_nodes()


def pairs_of(node: Node) -> list[PairMeasurement]:
    """Of each pair of the node with one that is not retired: the result that counts, and what was
    begun after it. One query."""
    rows = measurements().of_active_nodes().filter(Q(first=node) | Q(second=node))[:MAX_READ]
    shown, seen, decided = [], set(), set()
    for row in rows:
        pair = (row.first_id, row.second_id)
        if pair not in decided and (row.is_current or pair not in seen):
            shown.append(row)
        seen.add(pair)
        if row.is_current:
            decided.add(pair)
    return shown
