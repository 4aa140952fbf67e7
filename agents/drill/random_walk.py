"""Random requests and faults on one simulated node, in virtual time.

After every step the invariants of the node are checked; now and then a period without faults checks
that it converges.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pynvml

import agents.loop.node
from agents.admission.policy import NodePolicy
from agents.contract.boards import known_boards
from agents.contract.documents import (
    DesiredReplicaState,
    ObservedDocument,
    ObservedReplica,
    ReplicaState,
)
from agents.contract.end_causes import END_CAUSES, EndCause
from agents.contract.lease import LeaseEnd
from agents.drill.engine import OWN_END, MemoryEngine
from agents.drill.kill_points import Killed, KillSwitch, kill_points
from agents.drill.node import BOARD, NODE
from agents.drill.overlap import OverlappingRefresh
from agents.drill.portal import LEASE_SECONDS, SimulatedPortal
from agents.facts.ends import REQUESTED
from agents.hardware import Hardware
from agents.loop.node import NodeLoop
from agents.loop.workers import InlineWorkers
from agents.nvml.errors import NvmlFailure
from agents.nvml.session import Nvml
from agents.runtime.base import RuntimeFailure
from agents.simdriver.codes import Code
from agents.simdriver.install import install
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.state.journal import Journal

# After this time without faults the node must match the desired document.
REST_SECONDS = 30
SHOWN = 10
CHANGING = (
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceDestroy",
    "nvmlComputeInstanceDestroy",
)
# The order of a replica's states; the last two are final.
ORDER = {
    ReplicaState.PREPARING: 0,
    ReplicaState.READY: 1,
    ReplicaState.RUNNING: 2,
    ReplicaState.EXITED: 3,
    ReplicaState.FAILED: 3,
}


class Clock:
    """Replaces `time` in the loop: sleeping only advances it."""

    CLOCK_BOOTTIME = 7

    def __init__(self) -> None:
        self.now = self.booted_at = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def time(self) -> float:
        return self.now

    def clock_gettime(self, _: int) -> float:
        return self.now - self.booted_at


class RandomWalk:
    """`violations` counts violated invariants by their number."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home, self.random, self.clock = home, Random(seed), Clock()  # noqa: S311 - no secret
        store = Store(home / "driver.json")
        node = new_node(board=BOARD, gpus=1, seed=seed, latency=False)
        # Which way real drivers take is not known: odd seeds try the one, even seeds the other.
        node.repeats_mig_uuids = seed % 2 == 0
        store.create(node)
        install(store.path)
        self.store, self.switch = store, KillSwitch()
        self.engine = MemoryEngine(self.clock.time)
        self.engine.stop_cause = self._stop_cause
        self.policy = NodePolicy(on_lease_end=str(self.random.choice(list(LeaseEnd))))
        self.boots = 0
        # Until when nothing passes between the agent and the portal.
        self.cut_until = 0.0
        # What the agent would send first when contact is back: a report, and what was applied then.
        self.unsent: tuple[ObservedDocument, int] | None = None
        # Replicas whose own end was certain in a round that was not cut short.
        self.seen_ends: set[str] = set()
        self.gpu = Nvml().devices()[0].uuid
        self.portal = SimulatedPortal(NODE, self.gpu, known_boards()[BOARD], self.random)
        self.journal: Journal | None = None
        self.loop: NodeLoop | None = None
        self.reported_states: dict[str, ReplicaState] = {}
        self.done: Counter[str] = Counter()
        self.violations: Counter[str] = Counter()
        self.first_violations: list[str] = []
        self.driver_fails = 0
        self.engine_back_at = 0.0
        self.overlap = OverlappingRefresh(
            lambda: self.loop.hardware if self.loop else None, self.switch
        )
        self.overlap.remaining = 0

    def run(self, operations: int) -> None:
        ways: list[tuple[Callable[[], None], int]] = [
            (self.portal.submit, 30),
            (self.portal.stop, 15),
            (self.portal.merge, 10),
            (self._container_ends, 8),
            (self._kill, 12),
            (self._engine_away, 4),
            (self._image_away, 3),
            (self._driver_refuses, 6),
            (self._refresh_beside_changes, 8),
            (self._host_shutdown, 1),
            (self._power_loss, 1),
            (self._engine_restart, 2),
            (self._partition, 2),
            (self.portal.end_elsewhere, 2),
            (self._rest, 2),
            (self._wait, 9),
        ]
        calls, weights = zip(*ways, strict=True)
        with self._instrumented():
            for _ in range(operations):
                (way,) = self.random.choices(calls, weights)
                self.done[way.__name__.strip("_")] += 1
                way()
                self._round()
            self._rest()
        if self.journal is not None:
            self.journal.close()

    @contextmanager
    def _instrumented(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(patch.object(agents.loop.node, "time", self.clock))
            stack.enter_context(
                patch.object(agents.loop.node, "boot_id", lambda: f"boot-{self.boots}")
            )
            for name in CHANGING:
                stack.enter_context(
                    patch.object(pynvml.nvmlLib, name, self._maybe(getattr(pynvml.nvmlLib, name)))
                )
            stack.enter_context(kill_points(self.switch, []))
            stack.enter_context(self.overlap.installed())
            yield

    def _maybe(self, symbol: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            if self.driver_fails > 0:
                self.driver_fails -= 1
                return int(Code.IN_USE)
            return symbol(*arguments)

        return call

    def _round(self) -> None:
        """One second: the agent gets the document if it can, runs a round and reports."""
        self.clock.now += 1
        self.engine.is_away = self.clock.now < self.engine_back_at
        try:
            loop = self.loop or self._begin()
            if self.clock.now < self.cut_until:
                self.portal.give_up(self.clock.now)
            else:
                self._sync(loop)
            loop.hardware.refresh()
            loop.round()
            for replica in self.engine.by_replica:
                loop.journal.record_shipped(replica, 0)
            self.seen_ends |= self.engine.certain_own_ends()
        except Killed:
            self.loop, self.switch.kill_number = None, 0
        except (RuntimeFailure, NvmlFailure):
            self.done["rounds that failed"] += 1
        with self.switch.paused():
            self._check()

    def _sync(self, loop: NodeLoop) -> None:
        """One call: what the agent has to report, and the document that it gets in return."""
        if self.unsent is not None:
            self.portal.receive(*self.unsent)
            self.unsent = None
        self.portal.lease_until = self.clock.now + LEASE_SECONDS
        loop.renew_lease(self.clock.clock_gettime(Clock.CLOCK_BOOTTIME) + LEASE_SECONDS)
        desired = self.portal.document()
        if loop.desired != desired:
            loop.accept(desired)

    def _stop_cause(self, replica_id: str) -> str:
        """Why the agent stops a replica: its lease is over, if nothing else requires it."""
        assert self.loop is not None and self.journal is not None  # noqa: S101 - it stops something
        is_over = self.clock.now > self.portal.lease_until
        wanted = any(
            replica.id == replica_id and replica.wish is DesiredReplicaState.RUN
            for replica in self.loop.desired.replicas
        )
        has_failed = replica_id in self.journal.failures()
        return EndCause.LEASE_OVER if is_over and wanted and not has_failed else REQUESTED

    def _begin(self) -> NodeLoop:
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
            self._receive,
            new_workers=InlineWorkers,
        )
        return self.loop

    def _receive(self, document: ObservedDocument) -> None:
        """A report, sent at once or when contact is back. A replica that ended stays ended, and no
        state goes back (I7). The cause of an end is reported as it was (I11)."""
        for replica in document.replicas:
            self._check_end(replica)
            before = self.reported_states.get(replica.id)
            if before is not None and ORDER[replica.state] < ORDER[before]:
                self._violated("I7", f"{replica.id} went from {before} to {replica.state}")
            if before is not None and ORDER[before] == 3 and replica.state is not before:
                self._violated("I7", f"{replica.id} had {before} and is {replica.state}")
            self.reported_states[replica.id] = replica.state
        applied = self.loop.desired.revision if self.loop else 0
        if self.clock.now < self.cut_until:
            self.unsent = (document, applied)
        else:
            self.portal.receive(document, applied)

    def _check_end(self, replica: ObservedReplica) -> None:
        """What the node ended is never the program's own end. What the program ended is never the
        node's, once the agent has seen it."""
        ended_by = self.engine.end_causes.get(replica.id, OWN_END)
        if replica.state is ReplicaState.EXITED and ended_by in END_CAUSES:
            sentence = f"{replica.id} was ended by {ended_by}, and has exit code"
            self._violated("I11", f"{sentence} {replica.exit_code}")
        if replica.code in END_CAUSES and ended_by == OWN_END and replica.id in self.seen_ends:
            self._violated("I11", f"{replica.id} ended by itself, and is {replica.code}")

    def _check(self) -> None:
        """The invariants that always hold, even with faults."""
        for sentence in self.overlap.collisions:
            self._violated("I10", sentence)
        self.overlap.collisions.clear()
        running = self.engine.running()
        devices = Counter(device for given in running.values() for device in given)
        for device, count in devices.items():
            if count > 1:
                self._violated("I1", f"{count} containers run on {device}")
        there = {i.uuid for i in Nvml().instances(self.gpu)} if self._is_mig() else set()
        for replica, given in running.items():
            if not set(given) <= there:
                self._violated("I1", f"{replica} runs on a slice that is not there")
        for replica, count in self.engine.starts.items():
            if count > 1:
                self._violated("I8", f"{replica} was started {count} times")
        fences: dict[str, int] = {}
        for replica in running:
            seen = self.engine.by_replica[replica]
            if seen.job in self.portal.elsewhere:
                self._violated("I12", f"{seen.job} has two live copies")
            newest = max(fences.get(seen.job, 0), seen.fence)
            if fences.get(seen.job, newest) != newest or seen.fence != newest:
                self._violated("I9", f"two attempts of {seen.job} run")
            fences[seen.job] = newest

    def _rest(self) -> None:
        """A while without faults and requests: then nothing superfluous is left (I4), everything
        desired runs or is reported as ended (I5), and the same document changes nothing (I8)."""
        self._calm()
        for _ in range(REST_SECONDS):
            self._round()
        desired = self.portal.document()
        wanted = {r.id for r in desired.replicas}
        for replica in self.engine.by_replica.keys() - wanted:
            self._violated("I4", f"{replica} is left")
        with self.switch.paused():
            there = {(i.start, i.profile) for i in Nvml().instances(self.gpu) if i.uuid}
        if there != {(s.start, s.profile) for s in desired.slices}:
            self._violated("I4", f"slices are {sorted(there)}")
        for replica_id in wanted - self.engine.running().keys():
            if self.reported_states.get(replica_id) not in (
                ReplicaState.EXITED,
                ReplicaState.FAILED,
            ):
                self._violated("I5", f"{replica_id} neither runs nor was reported as ended")
        before = (dict(self.engine.by_replica), self.store.node())
        self._round()
        if (dict(self.engine.by_replica), self.store.node()) != before:
            self._violated("I8", "the same document changed the node")

    def _calm(self) -> None:
        self.engine_back_at, self.engine.refuses, self.cut_until = 0.0, False, 0.0
        self.driver_fails = self.switch.kill_number = 0

    def _container_ends(self) -> None:
        running = sorted(self.engine.running())
        if running:
            self.engine.exit(self.random.choice(running), self.random.choice((0, 1, 137)))

    def _kill(self) -> None:
        """Kill the agent somewhere in the next rounds."""
        self.switch.kill_number = self.switch.passed + self.random.randint(1, 300)

    def _engine_away(self) -> None:
        self.engine_back_at = self.clock.now + self.random.randint(1, 8)

    def _image_away(self) -> None:
        self.engine.refuses = not self.engine.refuses

    def _driver_refuses(self) -> None:
        self.driver_fails = self.random.randint(1, 4)

    def _refresh_beside_changes(self) -> None:
        """The next partition changes are overlapped by refreshes of another thread (I10)."""
        self.overlap.remaining = self.random.randint(1, 6)

    def _engine_restart(self) -> None:
        """It ends its containers first: with SIGTERM, if it is stopped in order."""
        self.engine.restart(self.random.choice((0, 137, 143)))

    def _host_shutdown(self) -> None:
        """In order: the agent ends, then the engine with its containers, then the host."""
        self._reboot(0)

    def _power_loss(self) -> None:
        """The engine finds containers that ran, and writes 255."""
        self._reboot(255)

    def _reboot(self, exit_code: int) -> None:
        """Ends all containers and removes all instances."""
        self.engine.restart(exit_code, EndCause.NODE_RESTARTED)
        with self.store.change() as node:
            for gpu in node.gpus:
                gpu.instances.clear()
        self.boots += 1
        self.clock.booted_at = self.clock.now
        self.loop = None

    def _partition(self) -> None:
        """Often longer than the lease, and than the portal waits after it."""
        self.cut_until = self.clock.now + self.random.randint(1, 4 * LEASE_SECONDS)

    def _wait(self) -> None:
        """Nothing new."""

    def _is_mig(self) -> bool:
        return bool(Nvml().devices()[0].mig_current)

    def _violated(self, invariant: str, sentence: str) -> None:
        self.violations[invariant] += 1
        if len(self.first_violations) < SHOWN:
            self.first_violations.append(f"{invariant} at {self.clock.now:.0f} s: {sentence}")


def random_walk(*, operations: int, seed: int) -> dict[str, Any]:
    """The steps and the number of violated invariants, as JSON data."""
    with tempfile.TemporaryDirectory(prefix="tessera-drill-") as folder:
        walk = RandomWalk(Path(folder), seed)
        walk.run(operations)
    return {
        "operations": operations,
        "seed": seed,
        "on_lease_end": walk.policy.on_lease_end,
        "virtual_seconds": round(walk.clock.now),
        "points": walk.switch.passed,
        "refreshes_beside_changes": walk.overlap.refreshes,
        "done": dict(sorted(walk.done.items())),
        "violations": sum(walk.violations.values()),
        "by_invariant": dict(sorted(walk.violations.items())),
        "first": walk.first_violations,
    }
