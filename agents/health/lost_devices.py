"""Notices a GPU that was cut off inside a running container.

With the systemd cgroup driver, `systemctl daemon-reload` (any package may do it) takes away the
device rules that were added behind systemd's back: what is open goes on, every new start of CUDA
fails with "Failed to initialize NVML: Unknown Error" (nvidia-container-toolkit #48, #1227;
nvidia-docker #1730). Under cgroup v2 that is not seen from outside, so one file is opened inside.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from docker.errors import DockerException
from docker.models.containers import Container

INTERVAL_SECONDS = 60.0
# What every program of NVIDIA's opens first. Opening it changes nothing and wakes no GPU.
PROBE = ("sh", "-c", "[ ! -e /dev/nvidiactl ] || : < /dev/nvidiactl")
# EPERM is the control group's answer; a file's own mode would say "Permission denied".
CUT_OFF = b"Operation not permitted"

log = logging.getLogger("agents.health")


class DetachedProbe:
    """`containers` lists those of this node that run. Looks at most once a minute, in a thread of
    its own, because an engine may hang; `sentences` are of the last look."""

    def __init__(
        self,
        containers: Callable[[], Iterable[Container]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sentences: tuple[str, ...] = ()
        self._containers = containers
        self._now = now
        self._next = 0.0
        self._thread: threading.Thread | None = None

    def run_when_due(self) -> threading.Thread | None:
        """The thread, or None where no look was begun."""
        if self._now() < self._next or (self._thread is not None and self._thread.is_alive()):
            return None
        self._next = self._now() + INTERVAL_SECONDS
        self._thread = threading.Thread(target=self.run, name="detached", daemon=True)
        self._thread.start()
        return self._thread

    def run(self) -> None:
        """What an engine that does not answer had said before stays."""
        try:
            cut_off = sorted(str(c.name) for c in self._containers() if _is_cut_off(c))
        except (DockerException, OSError) as error:
            log.warning("probe_failed", extra={"why": str(error)})
            return
        self.sentences = tuple(map(_sentence, cut_off))


def _is_cut_off(container: Container) -> bool:
    """A container without GPUs, without a shell, or that ended meanwhile tells nothing."""
    if not container.attrs["HostConfig"].get("DeviceRequests"):
        return False
    try:
        done = container.exec_run(list(PROBE), environment={"LC_ALL": "C"})
    except DockerException:
        return False
    return bool(done.exit_code) and CUT_OFF in done.output


def _sentence(name: str) -> str:
    return (
        f"{name} is cut off from its GPUs (systemctl daemon-reload?): what it has open goes on, "
        "but CUDA does not start in it. Start the job again; `agents doctor` tells how to mend it."
    )
