"""What a process answers to Prometheus, and to whom."""

import os
import secrets
from collections.abc import Iterable

from django.conf import settings
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from agents.contract.version import VERSION
from portal.metrics import FOLDER_VARIABLE, OWN_METRICS

PATH = "/metrics"
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class BuildInfo(Collector):
    def __init__(self, role: str) -> None:
        """`role`: web, worker or beat."""
        self._role = role

    def collect(self) -> Iterable[Metric]:
        info = {"version": VERSION, "role": self._role}
        yield InfoMetricFamily("tessera_build", "The version of this process.", value=info)


class Exposition:
    """The metrics of this process, and of those that share its work."""

    def __init__(self, role: str, collectors: Iterable[Collector] = ()) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        if folder := os.environ.get(FOLDER_VARIABLE):
            self.registry.register(MultiProcessCollector(None, folder))
        else:
            self.registry.register(OWN_METRICS)
        self.registry.register(ProcessCollector(registry=None))
        for collector in (BuildInfo(role), *collectors):
            self.registry.register(collector)

    def text(self) -> bytes:
        return generate_latest(self.registry)


def refusal_status(authorization: str) -> int:
    """The HTTP status for a caller who may not read; 0 for one who may.

    Without TESSERA_METRICS_TOKEN there is nothing to read, as if there were no such address.
    """
    token = settings.PLATFORM.metrics_token
    if not token:
        return 404
    scheme, _, presented = authorization.partition(" ")
    is_bearer = scheme.lower() == "bearer"
    # Of bytes: text with other characters than ASCII would raise.
    is_right = secrets.compare_digest(presented.strip().encode(), token.encode())
    return 0 if is_bearer and is_right else 401
