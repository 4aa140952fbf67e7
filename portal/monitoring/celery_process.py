"""Metrics of a worker and of beat. Imported with the tasks, by both of them."""

import logging
import sys
import time
from collections.abc import Iterable, Mapping
from contextvars import Token
from dataclasses import dataclass
from typing import Any

from celery.signals import beat_init, task_postrun, task_prerun, worker_ready
from django.conf import settings
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from portal.heartbeat import seconds_since_sign
from portal.live.bell import REQUEST_HEADER
from portal.log_context import add_log_fields, reset_log_fields
from portal.metrics import TASK_SECONDS, is_celery_worker
from portal.monitoring.cluster import ClusterMetrics
from portal.monitoring.exposition import Exposition
from portal.monitoring.server import MetricsServer, listen_address
from portal.request_id import audited_request_id, continue_request, end_request

log = logging.getLogger(__name__)

# The cluster's metrics come from beat, which may run inside a worker.
BEAT_OPTIONS = {"-B", "--beat"}
SLOW_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Running:
    """A task that this process does at present."""

    begun: float
    request: Token[str]
    fields: Token[Mapping[str, str]]


_running: dict[str, _Running] = {}


class HeartbeatMetrics(Collector):
    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "tessera_heartbeat_age_seconds",
            "Seconds since this worker or beat last reached the broker.",
            value=seconds_since_sign(),
        )


def serve_metrics(role: str, *collectors: Collector) -> MetricsServer | None:
    """Serve at TESSERA_METRICS_LISTEN; None if nothing is to be served, and the log says why."""
    platform = settings.PLATFORM
    if not platform.metrics_listen:
        return None
    try:
        address = listen_address(platform.metrics_listen)
    except ValueError as error:
        log.error("metrics are not served: %s", error)
        return None
    if not (address.is_loopback or platform.metrics_token):
        log.info(
            "metrics are not served: others can reach %s, so set TESSERA_METRICS_TOKEN as well",
            platform.metrics_listen,
        )
        return None
    exposition = Exposition(role, [HeartbeatMetrics(), *collectors])
    server = MetricsServer(address, exposition, needs_token=bool(platform.metrics_token))
    server.start()
    return server


def worker_serves(**_: Any) -> None:
    """After the pool of processes has started, which so does not hold the address."""
    serve_metrics("worker", *([ClusterMetrics()] if BEAT_OPTIONS & set(sys.argv) else []))


def beat_serves(**_: Any) -> None:
    # Inside a worker, it is the worker that serves.
    if not is_celery_worker(sys.argv):
        serve_metrics("beat", ClusterMetrics())


def task_begins(task_id: str = "", task: Any = None, **_: Any) -> None:
    # A header of the message: anybody who can write to the broker can write it.
    request = continue_request(getattr(task.request, REQUEST_HEADER, ""))
    fields = add_log_fields(task=task.name, task_id=task_id)
    _running[task_id] = _Running(time.monotonic(), request, fields)


def task_ends(task_id: str = "", task: Any = None, state: str = "", **_: Any) -> None:
    running = _running.pop(task_id, None)
    if running is None:
        return
    seconds, is_done = time.monotonic() - running.begun, state == "SUCCESS"
    outcome = "done" if is_done else "failed"
    TASK_SECONDS.labels(task.name, outcome).observe(seconds)
    # The clock's own tasks, every few seconds, are no news.
    is_news = seconds > SLOW_SECONDS or not is_done or audited_request_id()
    level = logging.INFO if is_news else logging.DEBUG
    log.log(level, "task %s", outcome, extra={"seconds": round(seconds, 3)})
    reset_log_fields(running.fields)
    end_request(running.request)


worker_ready.connect(worker_serves)
beat_init.connect(beat_serves)
task_prerun.connect(task_begins)
task_postrun.connect(task_ends)
