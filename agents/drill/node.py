"""One node of the drill: what outlives an agent (driver, processes, journal), and agents on it."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from agents.contract.documents import DesiredDocument, ObservedDocument
from agents.journal import Journal
from agents.node import NodeLoop
from agents.nvml import Nvml
from agents.observe import Hardware
from agents.policy import Policy
from agents.runtime import process
from agents.runtime.base import Phase
from agents.runtime.process import ProcessRuntime
from agents.simdriver.install import install
from agents.simdriver.state import new_node
from agents.simdriver.store import Store

BOARD = "H200-141GB"
NODE = "drill"
# Every call by which the process runtime changes the machine.
ENGINE_CALLS: list[tuple[Any, str]] = [
    (os, "mkfifo"),
    (subprocess, "Popen"),
    (process, "write"),
    (process, "_open_gate"),
    (shutil, "rmtree"),
    (os, "killpg"),
]


class AtOnce(Executor):
    """Work beside the loop is done in place: a drill has one order of events."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        fn(*args, **kwargs)
        return Future()


class DrillNode:
    """A fresh simulated node in `home`, and the agent that runs on it now."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.starts = home / "starts"
        self.starts.mkdir(parents=True)
        self.store = Store(home / "driver.json")
        self.store.create(new_node(board=BOARD, gpus=1, seed=1, latency=False))
        install(self.store.path)
        self.gpu = Nvml().devices()[0].uuid
        self.told: list[ObservedDocument] = []
        self.loop: NodeLoop | None = None
        self.journal: Journal | None = None

    def begin(self) -> NodeLoop:
        """A new agent; the one before is dead, and its memory with it."""
        self._drop_journal()
        self.journal = Journal(self.home / "journal.sqlite3")
        self.runtime = ProcessRuntime(self.home / "replicas")
        nvml = Nvml()
        hardware = Hardware(nvml, self.runtime, self.home, simulated=True)
        self.loop = NodeLoop(NODE, self.journal, hardware, self.runtime, Policy(), self.told.append)
        self.loop._pool.shutdown()
        self.loop._pool = AtOnce()  # type: ignore[assignment]
        return self.loop

    def round(self, desired: DesiredDocument) -> None:
        """One round as the agent lives it: told, looked, done; then logs are shipped."""
        loop = self.loop or self.begin()
        loop.in_contact(float("inf"))
        if loop.desired != desired:
            loop.accept(desired)
        loop.hardware.refresh()
        loop.round()
        for replica, seen in self.runtime.seen().items():
            if seen.phase is not Phase.CREATED:
                loop.journal.ship(replica, len(self.runtime.log(replica, 0, 1 << 20)))

    def kill(self) -> None:
        """The agent is gone; nothing of its memory is used again."""
        self.loop = None

    def is_mig(self) -> bool:
        return bool(Nvml().devices()[0].mig_current)

    def slices(self) -> dict[tuple[int, str], str]:
        """The UUID of each instance by start and profile, as the driver has it."""
        found = Nvml().instances(self.gpu) if self.is_mig() else []
        return {(instance.start, instance.profile): instance.uuid for instance in found}

    def phases(self) -> dict[str, Phase]:
        return {replica: seen.phase for replica, seen in self.runtime.seen().items()}

    def pids(self) -> dict[str, int]:
        """The process of each replica that runs."""
        return {
            home.parent.name: int(process._read(home)["pid"])  # type: ignore[index]
            for home in (self.home / "replicas").glob("*/identity.json")
        }

    def start_count(self, job: str) -> int:
        path = self.starts / job
        return len(path.read_text("utf-8").splitlines()) if path.exists() else 0

    def end(self) -> None:
        """Leave nothing of the drill itself."""
        for pid in self.pids().values():
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._drop_journal()

    def _drop_journal(self) -> None:
        """What was not committed is gone, as when a process dies."""
        if self.journal is not None:
            self.journal.close()
            self.journal = None
