"""The web process: Django, the agents' endpoint, probes, one listener for bells, and a quick
shutdown."""

import gc
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application

from portal.settings_choice import choose_settings

choose_settings()
django: Any = get_asgi_application()

from portal.agentapi.endpoint import PREFIX, endpoint  # noqa: E402 - models need Django set up
from portal.agentapi.http import Receive, Scope, Send, header  # noqa: E402
from portal.client_address import scope_address, set_client_address  # noqa: E402
from portal.health import PROBES, probe  # noqa: E402
from portal.live.listener import Listener, listener  # noqa: E402
from portal.request_id import HEADER, set_request_id  # noqa: E402

Handler = Callable[[int, FrameType | None], Any]


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "http" and scope["path"].startswith(PREFIX):
        # What Django's middleware does for all other calls.
        set_client_address(scope_address(scope))
        set_request_id(header(scope, HEADER))
        await endpoint(scope, receive, send)
    elif scope["type"] == "http" and scope["path"] in PROBES:
        # Asked by address and without TLS, by engines and proxies on the way to this process.
        await probe(scope, send, is_draining=listener().is_closing)
    else:
        await django(scope, receive, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    await receive()
    _raise_open_files()
    _freeze_modules()
    ear = listener()
    with _drained_by_signals(ear):
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await ear.close()
    await send({"type": "lifespan.shutdown.complete"})


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


@contextmanager
def _drained_by_signals(ear: Listener) -> Iterator[None]:
    """End long polls and streams as soon as the signal arrives.

    A server sends "lifespan.shutdown" only after the last open request has ended, and those would
    stay open.
    """
    chained: dict[signal.Signals, Handler] = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)
        # A handler can be set in the main thread only, and is chained to the one of the server.
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(number, _draining(ear, before))
            chained[number] = before
    try:
        yield
    finally:
        for number, before in chained.items():
            signal.signal(number, before)


def _draining(ear: Listener, before: Handler) -> Handler:
    def handle(number: int, frame: FrameType | None) -> None:
        ear.drain_soon()
        before(number, frame)

    return handle
