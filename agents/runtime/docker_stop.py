"""The end of a container: by the engine, or in steps where something must happen between its two
signals."""

from docker.errors import APIError
from docker.models.containers import Container
from requests.exceptions import ConnectionError as NoAnswer
from requests.exceptions import ReadTimeout

from agents.runtime.base import BeforeKill

DEFAULT_SIGNAL = "SIGTERM"


def stop_container(container: Container, grace_seconds: int, before_kill: BeforeKill) -> None:
    """Send the image's signal, then `before_kill` and SIGKILL if it still runs after the grace
    period. Returns once it has ended."""
    if before_kill is None:
        container.stop(timeout=grace_seconds)
        return
    container.reload()
    if container.status == "running":
        if grace_seconds:
            _send(container, container.attrs["Config"].get("StopSignal") or DEFAULT_SIGNAL)
        if not _has_ended(container, grace_seconds):
            before_kill()
    container.stop(timeout=0)


def host_pids(container: Container) -> list[int]:
    """Of its processes, as the engine's machine counts them; empty if it does not run."""
    try:
        found = container.top(ps_args="-eo pid,comm")
    except APIError:
        return []
    at = found["Titles"].index("PID")
    return [int(row[at]) for row in found["Processes"] or ()]


def _send(container: Container, signal: str) -> None:
    try:
        container.kill(signal)
    except APIError:
        # It ended a moment ago.
        container.reload()
        if container.status == "running":
            raise


def _has_ended(container: Container, seconds: int) -> bool:
    if not seconds:
        return False
    try:
        container.wait(timeout=seconds)
    except (ReadTimeout, NoAnswer):
        return False
    return True
