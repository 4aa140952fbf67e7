"""A node of the drill: what outlives an agent (driver, processes, journal), and its agents."""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import agents.loop.node
from agents.admission.policy import NodePolicy
from agents.contract.documents import DesiredDocument, DesiredReplica, ObservedDocument
from agents.contract.lease import LeaseEnd
from agents.contract.registries import RegistryCredential
from agents.drill.images import SimulatedImages, SimulatedPull
from agents.drill.script import NodeEvent
from agents.drill.turns import Turns, TurnWorkers
from agents.facts.images import WantedImage
from agents.hardware import Hardware
from agents.loop.lease import FACT as LEASE_FACT
from agents.loop.lease import Lease
from agents.loop.node import NodeLoop
from agents.loop.workers import Workers
from agents.nvml.session import Nvml
from agents.runtime import process
from agents.runtime.base import ContainerPhase, Runtime
from agents.runtime.child_server import CHILD, ChildServer
from agents.runtime.image_pull import PullRequest
from agents.runtime.process import ProcessRuntime
from agents.simdriver.install import install
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.state.journal import Journal

BOARD = "H200-141GB"
NODE = "drill"
START_SECONDS = 10.0
# Every call by which the process runtime changes the machine.
ENGINE_CALLS: list[tuple[Any, str]] = [
    (os, "mkfifo"),
    (ChildServer, "start_parent"),
    (process, "write"),
    (process, "_open_gate"),
    (shutil, "rmtree"),
    (os, "killpg"),
    (SimulatedPull, "run"),
    (SimulatedPull, "cancel"),
]


class LoopWaits(BaseException):
    """The agent's loop waits for a pull, and would for ever. No handler of the agent catches it."""


class PullingProcesses(ProcessRuntime):
    """Processes whose images have to be pulled, as if they were containers."""

    def __init__(self, home: Path, images: SimulatedImages) -> None:
        super().__init__(home)
        self._images = images

    def require_image(self, image: WantedImage) -> None:
        self._images.require(image)

    def new_pull(
        self, image: WantedImage, credential: RegistryCredential | None = None
    ) -> PullRequest:
        return self._images.new_pull(image)


class DrillNode:
    """A fresh simulated node in `home` and its current agent. Replicas are processes.

    All methods except `round` observe the node without the agent's memory.
    """

    def __init__(self, home: Path, name: str = NODE) -> None:
        self.home = home
        self.name = name
        self.starts = home / "starts"
        self.starts.mkdir(parents=True)
        self.store = Store(home / "driver.json")
        self.store.create(new_node(board=BOARD, gpus=1, seed=1, latency=False))
        install(self.store.path)
        self.gpu = Nvml().devices()[0].uuid
        self.reported: list[ObservedDocument] = []
        self.loop: NodeLoop | None = None
        self.journal: Journal | None = None
        self.runtime: Runtime | None = None
        # One try: a pause before the next one would only make the drill longer.
        self.policy = NodePolicy(pull_tries=1, on_lease_end=str(LeaseEnd.STOP))
        # The first run id of every replica; another start has another id.
        self.first_runs: dict[str, str] = {}
        self.boots = 0
        # They arrive when the script says so.
        self.images = SimulatedImages(Turns(_refuse_to_wait), lambda: float("inf"))
        # Replicas that had failed when contact was lost; None while there is contact.
        self._failures_before_cut: frozenset[str] | None = None

    def start_agent(self) -> NodeLoop:
        """Starts a new agent; the previous one and its memory are gone."""
        self._drop_journal()
        self.journal = Journal(self.home / "journal.sqlite3")
        self.runtime = self.new_runtime()
        hardware = Hardware(Nvml(), self.runtime, self.home, simulated=True)
        with patch.object(agents.loop.node, "boot_id", self._boot_id):
            self.loop = NodeLoop(
                self.name,
                self.journal,
                hardware,
                self.runtime,
                self.policy,
                self.reported.append,
                new_workers=self.new_workers,
            )
        return self.loop

    def new_runtime(self) -> Runtime:
        return PullingProcesses(self.home / "replicas", self.images)

    def new_workers(self, on_done: Callable[[], None]) -> Workers:
        return TurnWorkers(on_done, self.images.turns)

    def round(self, desired: DesiredDocument) -> None:
        """One round of the agent with this document, then its logs are shipped."""
        loop = self.loop or self.start_agent()
        self.images.turns.give_each()
        if not self._is_cut_off(loop):
            loop.renew_lease(float("inf"))
            if loop.desired != desired:
                loop.accept(desired)
        loop.hardware.refresh()
        loop.round()
        for replica, seen in loop.runtime.containers().items():
            if seen.phase is not ContainerPhase.CREATED:
                loop.journal.record_shipped({replica: len(loop.runtime.log(replica, 0, 1 << 20))})

    def kill(self) -> None:
        """Nothing of the agent's memory is used again."""
        self.loop = None
        self.images.turns.end()

    def suffer(self, event: NodeEvent) -> None:
        """Let it happen to the node, with all that runs there."""
        if event is NodeEvent.LEASE_END:
            self._end_lease()
            return
        self.kill()
        self.end_programs(signal.SIGTERM if event is NodeEvent.HOST_SHUTDOWN else signal.SIGKILL)
        self.boots += 1
        with self.store.change() as node:
            for gpu in node.gpus:
                gpu.instances.clear()

    def end_programs(self, how: signal.Signals) -> None:
        """Signal all that runs, and return when it has ended."""
        alive = [int(pid) for pid in self.run_ids().values() if _is_alive(int(pid))]
        for pid in alive:
            os.killpg(pid, how)
        end = time.monotonic() + START_SECONDS
        while any(map(_is_alive, alive)) and time.monotonic() < end:
            time.sleep(0.002)

    def _end_lease(self) -> None:
        assert self.journal is not None  # noqa: S101 - an agent has brought the node so far
        self._failures_before_cut = frozenset(self.journal.failures())
        self.journal.store_fact(LEASE_FACT, f"{self._boot_id()} 0.0")
        if self.loop is not None:
            self.loop.lease = Lease(self.journal, self._boot_id())

    def _is_cut_off(self, loop: NodeLoop) -> bool:
        """Out of contact, until the agent has written down what its lease has ended."""
        if self._failures_before_cut is None:
            return False
        if loop.journal.failures().keys() == self._failures_before_cut:
            return True
        self._failures_before_cut = None
        return False

    def _boot_id(self) -> str:
        return f"boot-{self.boots}"

    def is_mig(self) -> bool:
        return bool(Nvml().devices()[0].mig_current)

    def slices(self) -> dict[tuple[int, str], str]:
        """The UUID of each instance by start and profile, from the driver."""
        found = Nvml().instances(self.gpu) if self.is_mig() else []
        return {(instance.start, instance.profile): instance.uuid for instance in found}

    def phases(self) -> dict[str, ContainerPhase]:
        found = self.runtime.containers() if self.runtime else {}
        return {replica: seen.phase for replica, seen in found.items()}

    def pulled_images(self) -> list[str]:
        """Those that the engine pulls now, one for each request."""
        return sorted(pull.image for pull in self.images.pulls)

    def problem(self) -> str:
        """Anything else that is wrong between two steps; empty if nothing is."""
        return ""

    def run_ids(self) -> dict[str, str]:
        """The process of each running replica."""
        return {
            home.parent.name: str(process._read(home)["pid"])  # type: ignore[index]
            for home in (self.home / "replicas").glob("*/identity.json")
        }

    def wait_for_start(self, replica: DesiredReplica) -> bool:
        """Whether its program starts in time, by its own output."""
        end = time.monotonic() + START_SECONDS
        while not self.has_started(replica):
            if time.monotonic() > end:
                return False
            time.sleep(0.002)
        return True

    def has_started(self, replica: DesiredReplica) -> bool:
        """Whether its program has written its line."""
        return bool(self._starts_of(replica.job))

    def second_starts(self, jobs: set[str]) -> int:
        """The number of repeated starts of these jobs."""
        return sum(max(0, self._starts_of(job) - 1) for job in jobs)

    def _starts_of(self, job: str) -> int:
        path = self.starts / job
        return len(path.read_text("utf-8").splitlines()) if path.exists() else 0

    def count_leftovers(self) -> int:
        """The number of processes, replicas, instances and pulls."""
        alive = sum(_is_alive(int(pid)) for pid in self.first_runs.values())
        return alive + len(self.slices()) + len(self.phases()) + self.images.turns.count()

    def end(self) -> None:
        """Removes everything of the drill, including processes that a faulty runtime lost."""
        self.kill()
        for pid in {*map(int, self.run_ids().values()), *self._replica_parents()}:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self._drop_journal()

    def _replica_parents(self) -> Iterator[int]:
        """Every parent process of a replica of this node, recorded or not, and what forks them."""
        ours = f"\0{CHILD}\0{self.home}/replicas\0".encode()
        for words in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if ours in words.read_bytes():
                    yield int(words.parent.name)

    def _drop_journal(self) -> None:
        """Uncommitted writes are lost, as when a process dies."""
        if self.journal is not None:
            self.journal.close()
            self.journal = None


def _refuse_to_wait() -> None:
    raise LoopWaits("the loop waits for a pull")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
