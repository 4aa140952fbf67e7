"""The counts of the cluster as metrics. Beat alone serves them: if every process did, sums over
them would count each job several times.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime

from django.db import DatabaseError, InterfaceError, connection
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from portal.monitoring.counts import (
    NO_REASON,
    BrokerAway,
    ClusterCounts,
    cluster_counts,
    queue_lengths,
)
from portal.task_queues import NAMES
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.states import (
    ALLOCATION_LIVE,
    JOB_FINAL,
    GpuHealth,
    JobStatus,
    NodeStatus,
)

# However many scrape, the database is read once in this time.
KEPT_SECONDS = 10.0
# A scrape waits this long for a read.
WAIT_SECONDS = 4.0
UNENDED = [status for status in JobStatus if status not in JOB_FINAL]

log = logging.getLogger(__name__)


class ClusterMetrics(Collector):
    """Read at most every KEPT_SECONDS, by one thread. While the database or the broker does not
    answer, it counts as down, and what it would say is left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self._reading: Future[list[Metric]] | None = None
        self._families: list[Metric] = []
        self._read_at = float("-inf")

    def describe(self) -> Iterable[Metric]:
        """Every family."""
        nothing = ClusterCounts({}, {}, {}, 0, {}, 0, 0, (), {}, {})
        return [*_database_families(nothing), *_broker_families({})]

    def collect(self) -> Iterable[Metric]:
        if self._clock() - self._read_at < KEPT_SECONDS:
            return self._families
        if self._reading is None or self._reading.done():
            self._reading = self._thread.submit(self._read)
        try:
            # One that takes longer goes on, and the next scrape waits for the same one.
            return self._reading.result(WAIT_SECONDS)
        except NotInTime:
            return [*_database_families(None), *_broker_families(None)]

    def _read(self) -> list[Metric]:
        self._families = [*_database_families(_counts()), *_broker_families(_lengths())]
        self._read_at = self._clock()
        return self._families


def _counts() -> ClusterCounts | None:
    try:
        return cluster_counts()
    except (DatabaseError, InterfaceError) as error:
        log.warning("metrics: the database does not answer: %s", error)
        return None
    finally:
        connection.close()


def _lengths() -> dict[str, int] | None:
    try:
        return queue_lengths()
    except BrokerAway as error:
        log.warning("metrics: the broker does not answer: %s", error)
        return None


def _database_families(counts: ClusterCounts | None) -> Iterator[Metric]:
    yield _value("tessera_database_up", "1 if the database answered.", 0 if counts is None else 1)
    if counts is None:
        return
    yield _by(
        "tessera_round_age_seconds",
        "Seconds since a round of this work was last completed; plan: a planning pass.",
        "work",
        counts.round_ages,
    )
    yield _by("tessera_jobs", "Jobs that have not ended.", "status", counts.jobs, UNENDED)
    yield _by(
        "tessera_waiting_jobs",
        "Jobs that wait for devices or for an approval, by reason.",
        "reason",
        counts.waiting,
        [*ReasonCode, NO_REASON],
    )
    yield _value(
        "tessera_oldest_queued_seconds",
        "How long the job that was queued first has waited; 0 without one.",
        counts.oldest_queued_seconds,
    )
    yield _by("tessera_nodes", "Nodes.", "status", counts.nodes, NodeStatus)
    yield _value(
        "tessera_nodes_cordoned", "Nodes that an admin lets take no new work.", counts.cordoned
    )
    yield _value(
        "tessera_nodes_holding", "Nodes that hold back, as an admin has to decide.", counts.holding
    )
    trouble = GaugeMetricFamily(
        "tessera_node_trouble",
        "1 for a node that is silent or holds back; at most 100 are named.",
        labels=("node", "trouble"),
    )
    for pair in counts.troubled:
        trouble.add_metric(pair, 1)
    yield trouble
    yield _by("tessera_gpus", "GPUs of nodes in service.", "health", counts.gpus, GpuHealth)
    yield _by(
        "tessera_allocations",
        "Devices that are bound to replicas.",
        "status",
        counts.allocations,
        sorted(ALLOCATION_LIVE),
    )


def _broker_families(lengths: Mapping[str, int] | None) -> Iterator[Metric]:
    yield _value("tessera_broker_up", "1 if the broker answered.", 0 if lengths is None else 1)
    if lengths is not None:
        yield _by(
            "tessera_queue_messages", "Tasks that wait in a Celery queue.", "queue", lengths, NAMES
        )


def _value(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=value)


def _by(
    name: str,
    documentation: str,
    label: str,
    values: Mapping[str, float],
    known: Iterable[str] = (),
) -> Metric:
    """`known`: values of the label that are there even at 0."""
    family = GaugeMetricFamily(name, documentation, labels=(label,))
    for each, value in (dict.fromkeys(map(str, known), 0.0) | dict(values)).items():
        family.add_metric((each,), value)
    return family
