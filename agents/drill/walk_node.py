"""The simulated node of a random walk: driver, engine and images in virtual time, and its agent."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pynvml

import agents.host.machine_ids
import agents.loop.node
from agents.admission.policy import NodePolicy
from agents.contract.documents import ObservedDocument
from agents.contract.end_causes import EndCause
from agents.contract.lease import LeaseEnd
from agents.contract.pulls import PullCause
from agents.drill.clock import Clock
from agents.drill.engine import MemoryEngine
from agents.drill.images import SimulatedImages, SimulatedPull
from agents.drill.kill_points import KillSwitch, kill_points
from agents.drill.node import BOARD, NODE
from agents.drill.overlap import OverlappingRefresh
from agents.drill.turns import Turns, TurnWorkers
from agents.hardware import Hardware
from agents.loop.node import NodeLoop
from agents.nvml.session import Nvml
from agents.simdriver.codes import Code
from agents.simdriver.install import install
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.state.journal import Journal

# How long an image downloads: at least, at most.
PULL_SECONDS = (3, 60)
# A pull that makes no progress for so long is tried again.
STALL_SECONDS = 20
CHANGING = (
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceDestroy",
    "nvmlComputeInstanceDestroy",
)
ENGINE_CALLS: list[tuple[Any, str]] = [(SimulatedPull, "run"), (SimulatedPull, "cancel")]


class WalkNode:
    """What outlives an agent, with its faults, and the agent that runs now."""

    def __init__(self, home: Path, random: Random, seed: int) -> None:
        self.home, self.random, self.clock = home, random, Clock()
        self.store = Store(home / "driver.json")
        node = new_node(board=BOARD, gpus=1, seed=seed, latency=False)
        # Which way real drivers take is not known: odd seeds try the one, even seeds the other.
        node.repeats_mig_uuids = seed % 2 == 0
        self.store.create(node)
        install(self.store.path)
        self.gpu = Nvml().devices()[0].uuid
        self.switch = KillSwitch()
        self.turns = Turns(self.second_passes)
        self.images = SimulatedImages(self.turns, lambda: random.randint(*PULL_SECONDS))
        self.engine = MemoryEngine(self.clock.time, self.images)
        self.policy = NodePolicy(
            on_lease_end=str(random.choice(list(LeaseEnd))),
            pull_tries=3,
            pull_stall_seconds=STALL_SECONDS,
        )
        self.boots = 0
        self.journal: Journal | None = None
        self.loop: NodeLoop | None = None
        self.driver_fails = 0
        # When the driver last refused a change.
        self.refused_at = float("-inf")
        self.engine_back_at = self.registry_back_at = 0.0
        self.overlap = OverlappingRefresh(
            lambda: self.loop.hardware if self.loop else None, self.switch
        )
        self.overlap.remaining = 0

    @contextmanager
    def instrumented(self) -> Iterator[None]:
        """In this block its agents live in virtual time, can be killed, and meet its faults."""
        with ExitStack() as stack:
            for module in (agents.loop.node, agents.host.machine_ids):
                stack.enter_context(patch.object(module, "time", self.clock))
            stack.enter_context(
                patch.object(agents.loop.node, "boot_id", lambda: f"boot-{self.boots}")
            )
            for name in CHANGING:
                stack.enter_context(
                    patch.object(pynvml.nvmlLib, name, self._maybe(getattr(pynvml.nvmlLib, name)))
                )
            stack.enter_context(kill_points(self.switch, ENGINE_CALLS))
            stack.enter_context(self.overlap.installed())
            yield

    def second_passes(self) -> None:
        self.clock.now += 1
        self.engine.is_away = self.images.is_away = self.clock.now < self.engine_back_at
        self.images.is_silent = self.clock.now < self.registry_back_at
        self.images.second_passes()

    def begin_agent(self, on_observed: Callable[[ObservedDocument], None]) -> NodeLoop:
        """The agent, a new one if there is none."""
        if self.loop is not None:
            return self.loop
        if self.journal is not None:
            self.journal.close()
        self.journal = Journal(self.home / "journal.sqlite3")
        hardware = Hardware(Nvml(), self.engine, self.home, simulated=True, policy=self.policy)
        self.loop = NodeLoop(
            NODE,
            self.journal,
            hardware,
            self.engine,
            self.policy,
            on_observed,
            new_workers=partial(TurnWorkers, turns=self.turns),
        )
        return self.loop

    def end_agent(self) -> None:
        """Nothing of its memory is used again."""
        self.loop = None
        self.turns.end()

    def reboot(self, exit_code: int) -> None:
        """Ends all containers and removes all instances."""
        self.engine.restart(exit_code, EndCause.NODE_RESTARTED)
        with self.store.change() as node:
            for gpu in node.gpus:
                gpu.instances.clear()
        self.boots += 1
        self.clock.booted_at = self.clock.now
        self.end_agent()

    def set_registry(self, *, refuses: bool) -> None:
        self.engine.refuses = refuses
        causes = (PullCause.NOT_FOUND, PullCause.REGISTRY_AWAY)
        self.images.refusal = self.random.choice(causes) if refuses else None

    def calm(self) -> None:
        """No fault from now on."""
        self.engine_back_at = self.registry_back_at = 0.0
        self.set_registry(refuses=False)
        self.driver_fails = self.switch.kill_number = 0

    def device_uuids(self) -> set[str]:
        """Of its MIG instances, from the driver."""
        is_mig = bool(Nvml().devices()[0].mig_current)
        return {i.uuid for i in Nvml().instances(self.gpu)} if is_mig else set()

    def slices(self) -> set[tuple[int, str]]:
        """Start and profile of its usable MIG instances, from the driver."""
        return {(i.start, i.profile) for i in Nvml().instances(self.gpu) if i.uuid}

    def _maybe(self, symbol: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            if self.driver_fails > 0:
                self.driver_fails -= 1
                self.refused_at = self.clock.now
                return int(Code.IN_USE)
            return symbol(*arguments)

        return call
