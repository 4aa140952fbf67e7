"""The endpoint that Prometheus scrapes: text format 0.0.4 over HTTP, by default on loopback.

It exposes the work of all users without authentication. An address that others can reach needs a
firewall or an authenticating proxy.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agents.telemetry.settings import Address


@dataclass
class EndpointFailure(Exception):
    """The endpoint cannot listen on its address."""

    sentence: str

    def __str__(self) -> str:
        return self.sentence


class _LiveCollector(Collector):
    """Collects at each scrape, in the scrape's thread."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


class MetricsEndpoint:
    """Listens from the start until `close`. Raises EndpointFailure if the address is in use."""

    def __init__(self, at: Address, families: Callable[[], Iterable[Metric]]) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_LiveCollector(families))
        self._server: WSGIServer
        self._thread: threading.Thread
        try:
            self._server, self._thread = start_http_server(at.port, at.host, registry)
        except OSError as error:
            raise EndpointFailure(f"metrics at {at}: {error.strerror or error}") from error

    @property
    def port(self) -> int:
        """The one that was given, or found where that was 0."""
        return self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
