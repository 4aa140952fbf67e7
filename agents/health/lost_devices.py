"""Detects containers that lost access to their GPUs.

With the systemd cgroup driver, `systemctl daemon-reload` (which any package may run) removes the
device rules that systemd does not know. Open devices keep working, but every new start of CUDA
fails with "Failed to initialize NVML: Unknown Error" (nvidia-container-toolkit #48, #1227;
nvidia-docker #1730). With cgroup v2 this is not visible from outside, so the probe opens the files
inside the container.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from docker.errors import DockerException
from docker.models.containers import Container

from agents.runtime.injection import RUNTIME_NAME

INTERVAL_SECONDS = 60.0
# The files that CUDA opens beside the GPU's own: opening them changes nothing and wakes no GPU.
# Each in a shell of its own, which ends at a file that it may not open.
FILES = "/dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools /dev/nvidia-caps/nvidia-cap*"
PROBE = ("sh", "-c", f'for f in {FILES}; do [ ! -e "$f" ] || ( : < "$f" ); done')
# EPERM is the control group's answer; a file's own mode would say "Permission denied".
CUT_OFF = b"Operation not permitted"

log = logging.getLogger("agents.health")


class DetachedProbe:
    """Probes the running containers of this node, at most once a minute and in a separate thread,
    because an engine may hang. `sentences` are of the last probe."""

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
        """The probe's thread, or None if none was started."""
        if self._now() < self._next or (self._thread is not None and self._thread.is_alive()):
            return None
        self._next = self._now() + INTERVAL_SECONDS
        self._thread = threading.Thread(target=self.run, name="detached", daemon=True)
        self._thread.start()
        return self._thread

    def run(self) -> None:
        """Keeps the previous sentences if the engine does not respond."""
        try:
            cut_off = sorted(str(c.name) for c in self._containers() if _is_cut_off(c))
        except (DockerException, OSError) as error:
            log.warning("probe_failed", extra={"why": str(error)})
            return
        self.sentences = tuple(map(_sentence, cut_off))


def _is_cut_off(container: Container) -> bool:
    """False too for a container without GPUs or shell, and for one that ended meanwhile."""
    host = container.attrs["HostConfig"]
    if not host.get("DeviceRequests") and host.get("Runtime") != RUNTIME_NAME:
        return False
    try:
        done = container.exec_run(list(PROBE), environment={"LC_ALL": "C"})
    except DockerException:
        return False
    return CUT_OFF in done.output


def _sentence(name: str) -> str:
    return (
        f"{name} is cut off from its GPUs (systemctl daemon-reload?): open devices keep working, "
        "but CUDA cannot start again. Restart the job; `agents doctor` shows how to fix the cause."
    )
