"""The page that Prometheus scrapes: text format 0.0.4 over HTTP, on loopback unless told otherwise.

It tells of every user's work on this node and asks nobody who they are: an address that others can
reach needs a firewall, or a proxy that asks.
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
    """The address cannot be listened at."""

    sentence: str

    def __str__(self) -> str:
        return self.sentence


class _Told(Collector):
    """Asked at each scrape, in the scrape's thread."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


class MetricsEndpoint:
    """Listens from the start until `close`. Raises EndpointFailure where the address is taken."""

    def __init__(self, at: Address, families: Callable[[], Iterable[Metric]]) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Told(families))
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
