"""WebSockets of the portal to a running job, and their failures in words."""

import contextlib
import json
from typing import Any

from websockets.exceptions import InvalidStatus

from agents.contract.tunnel import MAX_FRAME_BYTES
from agents.tunnel.client_socket import Dial
from portal.cli.client import BUSY_STATUSES
from portal.cli.config import PortalAccess
from portal.cli.connection import websocket_options
from portal.cli.exit_codes import CommandFailed, ExitCode, failure_from_problem

# Of RFC 6455: the portal does not let us use it any more.
POLICY = 1008


def dial_job(access: PortalAccess, url: str) -> Dial:
    """Raises CommandFailed, and what `websockets.connect` raises."""
    return Dial(
        url.replace("http", "ws", 1),
        additional_headers={"Authorization": f"Bearer {access.token}"},
        compression=None,
        max_size=MAX_FRAME_BYTES,
        **websocket_options(access),
    )


def refused_failure(refused: InvalidStatus) -> CommandFailed:
    problem: Any = None
    with contextlib.suppress(ValueError):
        problem = json.loads(refused.response.body or b"")
    status = refused.response.status_code
    if isinstance(problem, dict):
        return failure_from_problem(status, problem, "")
    if status in BUSY_STATUSES:
        return CommandFailed(f"http_{status}", f"The portal is away: its proxy answered {status}")
    sentence = f"The portal answered {status}: it is older than this"
    return CommandFailed("not_a_portal", sentence, "the same command after its update")


def denied_failure(reason: str) -> CommandFailed:
    return CommandFailed("forbidden", reason, "tessera ps", ExitCode.DENIED)


def unreachable_failure(url: str, error: Exception) -> CommandFailed:
    return CommandFailed("unreachable", f"{url} cannot be reached: {error}")
