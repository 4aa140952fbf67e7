"""`/metrics` of a web process, beside Django: asked by address, without a host name or TLS."""

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from django.conf import settings
from django.db import connection
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from portal.agentapi.long_poll import open_poll_count
from portal.agentapi.threads import waiting_call_count
from portal.monitoring.exposition import CONTENT_TYPE, Exposition, refusal_status
from portal.stream_access import open_stream_count
from portal.tunnel.held import held_tunnel_count

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = logging.getLogger(__name__)


class WebMetrics(Collector):
    """What a web process has open at this moment."""

    def describe(self) -> Iterable[Metric]:
        """Every family, also of what this process does not have."""
        return [*self._of_calls(), *_pool_families({}), *_of_folder()]

    def collect(self) -> Iterable[Metric]:
        return [*self._of_calls(), *_of_pool(), *_of_folder()]

    def _of_calls(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "tessera_held_calls", "Calls of agents that wait for news.", value=open_poll_count()
        )
        yield GaugeMetricFamily(
            "tessera_streams", "Event streams that are open.", value=open_stream_count()
        )
        yield GaugeMetricFamily(
            "tessera_tunnels", "Tunnels of nodes that are held.", value=held_tunnel_count()
        )
        yield GaugeMetricFamily(
            "tessera_agent_threads",
            "Database threads for calls of agents.",
            value=settings.PLATFORM.agent_threads,
        )
        yield GaugeMetricFamily(
            "tessera_agent_calls_waiting",
            "Calls of agents that wait for such a thread.",
            value=waiting_call_count(),
        )


def _of_pool() -> Iterator[Metric]:
    """Of PostgreSQL; SQLite has no pool."""
    pool = getattr(connection, "pool", None)
    if pool is not None:
        yield from _pool_families(pool.get_stats())


def _pool_families(statistics: Mapping[str, float]) -> Iterator[Metric]:
    """`statistics`: as psycopg's pool has them, which leaves out what is 0."""
    connections = GaugeMetricFamily(
        "tessera_database_connections",
        "Connections of the pool: in use, idle, and the most that there may be.",
        labels=("state",),
    )
    idle = statistics.get("pool_available", 0)
    connections.add_metric(("in_use",), statistics.get("pool_size", 0) - idle)
    connections.add_metric(("idle",), idle)
    connections.add_metric(("most",), statistics.get("pool_max", 0))
    yield connections
    yield GaugeMetricFamily(
        "tessera_database_requests_waiting",
        "Threads that wait for a connection of the pool.",
        value=statistics.get("requests_waiting", 0),
    )


def _of_folder() -> Iterator[Metric]:
    """The disk of TESSERA_VAR, where logs are kept unless there is a bucket."""
    try:
        disk = shutil.disk_usage(settings.PLATFORM.var)
    except OSError as error:
        log.warning("metrics: TESSERA_VAR cannot be read: %s", error)
        return
    space = GaugeMetricFamily(
        "tessera_var_bytes",
        "The file system of TESSERA_VAR: its size, and what is free.",
        labels=("amount",),
    )
    space.add_metric(("size",), disk.total)
    space.add_metric(("free",), disk.free)
    yield space


@cache
def web_exposition() -> Exposition:
    return Exposition("web", [WebMetrics()])


@cache
def _thread() -> ThreadPoolExecutor:
    """One, so that any number of callers take one processor at most."""
    return ThreadPoolExecutor(1, thread_name_prefix="metrics")


async def serve_metrics(scope: Scope, send: Send) -> None:
    authorization = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    if scope["method"] not in ("GET", "HEAD"):
        await _respond(send, 405, b"only GET and HEAD\n", (b"allow", b"GET, HEAD"))
    elif status := refusal_status(authorization):
        demand = [(b"www-authenticate", b"Bearer")] if status == 401 else []
        await _respond(send, status, b"", *demand)
    else:
        loop = asyncio.get_running_loop()
        body = await loop.run_in_executor(_thread(), web_exposition().text)
        await _respond(send, 200, b"" if scope["method"] == "HEAD" else body)


async def _respond(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    kind = CONTENT_TYPE if status == 200 else "text/plain; charset=utf-8"
    always = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*always, *headers]})
    await send({"type": "http.response.body", "body": body})
