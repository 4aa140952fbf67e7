"""The web process: Django, the agents' endpoint, probes, one listener for bells, and its end."""

import asyncio
import gc
import resource
from importlib import import_module

import django
from django.conf import settings

from portal.settings_choice import choose_settings

choose_settings()
django.setup(set_prefix=False)

from agents.contract.tunnel import TUNNEL_PATH  # noqa: E402
from portal.agentapi.endpoint import NO_SUCH, PREFIX, endpoint  # noqa: E402 - models need Django set up
from portal.agentapi.tunnel import tunnel_endpoint  # noqa: E402
from portal.api.ports.endpoint import is_port_path, port_endpoint  # noqa: E402
from portal.api.protocol.threads import PREFIX as REST  # noqa: E402
from portal.api.protocol.threads import RestHandler  # noqa: E402
from portal.api.terminals.endpoint import is_terminal_path, terminal_endpoint  # noqa: E402
from portal.apps.application import AppsApplication  # noqa: E402
from portal.apps.health_watch import watch_health  # noqa: E402
from portal.apps.hosts import is_for_apps  # noqa: E402
from portal.asgi_scope import Receive, Scope, Send, header  # noqa: E402
from portal.client_address import scope_address, set_client_address  # noqa: E402
from portal.draining import Drain  # noqa: E402
from portal.health import PROBES, probe  # noqa: E402
from portal.live.listener import listener  # noqa: E402
from portal.monitoring.exposition import PATH as METRICS  # noqa: E402
from portal.monitoring.web_process import serve_metrics  # noqa: E402
from portal.planning.snapshot_ahead import SnapshotAhead  # noqa: E402
from portal.request_bodies import BoundedBodies, page_bytes, rest_bytes  # noqa: E402
from portal.request_id import HEADER, set_request_id  # noqa: E402
from portal.spooled_bodies import SpoolingHandler  # noqa: E402
from portal.tunnel.asgi_socket import refuse_handshake  # noqa: E402
from portal.tunnel.registry import close_registry  # noqa: E402
from portal.tunnel.relay import RELAY_PATH, close_relays, relay_endpoint  # noqa: E402
from portal.tunnel.streams import stream_open  # noqa: E402
from scheduler.jit_warmup import warm_up  # noqa: E402

rest = BoundedBodies(RestHandler(), rest_bytes)
apps = AppsApplication(stream_open)
pages = BoundedBodies(SpoolingHandler(), page_bytes)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(scope, receive, send)
    elif is_for_apps(scope["headers"], settings.PLATFORM.apps_domain):
        # Before everything else: pages of users are there, and nothing of the portal.
        await apps(scope, receive, send)
    elif scope["type"] == "websocket":
        set_client_address(scope_address(scope))
        set_request_id(header(scope, HEADER))
        await _socket(scope, receive, send)
    elif scope["type"] == "http" and scope["path"].startswith(PREFIX):
        # What Django's middleware does for all other calls.
        set_client_address(scope_address(scope))
        set_request_id(header(scope, HEADER))
        await endpoint(scope, receive, send)
    elif scope["type"] == "http" and scope["path"] in PROBES:
        # Asked by address and without TLS, by engines and proxies on the way to this process.
        await probe(scope, send, is_draining=_is_draining(scope))
    elif scope["type"] == "http" and scope["path"] == METRICS:
        await serve_metrics(scope, send)
    elif scope["type"] == "http" and scope["path"].startswith(REST):
        await rest(scope, receive, send)
    else:
        await pages(scope, receive, send)


async def _socket(scope: Scope, receive: Receive, send: Send) -> None:
    """WebSockets: each path is an endpoint of its own, and Django has none."""
    if scope["path"] == TUNNEL_PATH:
        await tunnel_endpoint(scope, receive, send)
    elif scope["path"] == RELAY_PATH:
        await relay_endpoint(scope, receive, send)
    elif is_port_path(scope["path"]):
        await port_endpoint(scope, receive, send)
    elif is_terminal_path(scope["path"]):
        await terminal_endpoint(scope, receive, send)
    else:
        await refuse_handshake(receive, send, 404, NO_SUCH)


async def _lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    _raise_open_files()
    if settings.LOAD_KERNELS:
        warm_up()
    _freeze_modules()
    ear = listener()
    ahead = SnapshotAhead()
    drain = Drain(ear, settings.PLATFORM.drain_seconds, apps.finish_calls)
    # The server passes it on to each request.
    scope.get("state", {})["drain"] = drain
    with drain.on_signals(), ahead:
        await send({"type": "lifespan.startup.complete"})
        health = asyncio.create_task(watch_health(stream_open))
        await receive()
    health.cancel()
    await asyncio.wait([health])
    await apps.close()
    await close_relays()
    await close_registry()
    await ear.close()
    await send({"type": "lifespan.shutdown.complete"})


def _is_draining(scope: Scope) -> bool:
    drain = scope.get("state", {}).get("drain")
    return listener().is_closing or (drain is not None and drain.is_begun)


def _raise_open_files() -> None:
    """Use all open files that this process may have: each waiting agent is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _freeze_modules() -> None:
    """Take what is loaded for good out of the garbage collector's full rounds: each would walk
    200,000 objects, 110 ms of processor time in which nothing is answered."""
    # All views, which the first request would load.
    import_module(settings.ROOT_URLCONF)
    gc.collect()
    gc.freeze()
