"""The end of a container in steps, where something must happen between its two signals."""

from collections.abc import Callable

from docker.errors import APIError
from docker.models.containers import Container
from requests.exceptions import ConnectionError as NoAnswer
from requests.exceptions import ReadTimeout

DEFAULT_SIGNAL = "SIGTERM"


def stop_in_steps(
    container: Container, grace_seconds: int, before_kill: Callable[[], None]
) -> None:
    """As the engine's own stop, with `before_kill` between the image's signal and SIGKILL."""
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
