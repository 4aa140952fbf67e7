"""Random requests and faults on one simulated node, in virtual time.

After every step the invariants of the node are checked; now and then a period without faults checks
that it converges.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from agents.contract.boards import known_boards
from agents.contract.documents import (
    DesiredReplicaState,
    ObservedDocument,
    ObservedReplica,
    ReplicaState,
)
from agents.contract.end_causes import END_CAUSES, EndCause
from agents.drill.clock import Clock
from agents.drill.engine import OWN_END
from agents.drill.kill_points import Killed
from agents.drill.node import BOARD, NODE
from agents.drill.portal import LEASE_SECONDS, SimulatedPortal
from agents.drill.pull_checks import PullChecks
from agents.drill.violations import Violations
from agents.drill.walk_node import STALL_SECONDS, WalkNode
from agents.facts.ends import REQUESTED
from agents.loop.node import NodeLoop
from agents.nvml.errors import NvmlFailure
from agents.runtime.base import RuntimeFailure

# More than this, no pull of a calm walk lasts.
MAX_PULL_SECONDS = 900
# After this time without faults the node must match the desired document.
REST_SECONDS = 30
# The order of a replica's states; the last two are final.
ORDER = {
    ReplicaState.PREPARING: 0,
    ReplicaState.READY: 1,
    ReplicaState.RUNNING: 2,
    ReplicaState.EXITED: 3,
    ReplicaState.FAILED: 3,
}


class RandomWalk:
    """`violations` counts violated invariants by their number."""

    def __init__(self, home: Path, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - no secret
        self.node = node = WalkNode(home, self.random, seed)
        self.clock, self.engine, self.switch = node.clock, node.engine, node.switch
        self.engine.stop_cause = self._stop_cause
        self.violations = Violations(self.clock)
        self.pulls = PullChecks(node, self.violations)
        # Until when nothing passes between the agent and the portal.
        self.cut_until = 0.0
        # What the agent would send first when contact is back: a report, and what was applied then.
        self.unsent: tuple[ObservedDocument, int] | None = None
        # Replicas whose own end was certain in a round that was not cut short.
        self.seen_ends: set[str] = set()
        self.portal = SimulatedPortal(NODE, node.gpu, known_boards()[BOARD], self.random)
        self.reported_states: dict[str, ReplicaState] = {}
        self.done: Counter[str] = Counter()

    def run(self, operations: int) -> None:
        ways: list[tuple[Callable[[], None], int]] = [
            (self.portal.submit, 30),
            (self.portal.stop, 15),
            (self.portal.merge, 10),
            (self._crowd, 6),
            (self._prune, 2),
            (self._registry_silent, 2),
            (self._agent_restart, 2),
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
        with self.node.instrumented():
            for _ in range(operations):
                (way,) = self.random.choices(calls, weights)
                self.done[way.__name__.strip("_")] += 1
                way()
                self._round()
            self._rest()
        self.node.end_agent()
        if self.node.journal is not None:
            self.node.journal.close()

    def _round(self) -> None:
        """One second: the agent gets the document if it can, runs a round and reports."""
        self.node.second_passes()
        try:
            self.node.turns.give_each()
            loop = self.node.begin_agent(self._receive)
            if self.clock.now < self.cut_until:
                self.portal.give_up(self.clock.now)
            else:
                self._sync(loop)
            loop.hardware.refresh()
            with self.pulls.round(loop):
                loop.round()
            for replica in self.engine.by_replica:
                loop.journal.record_shipped({replica: 0})
            self.seen_ends |= self.engine.certain_own_ends()
        except Killed:
            self.node.end_agent()
            self.switch.kill_number = 0
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
        loop = self.node.loop
        assert loop is not None  # noqa: S101 - it stops something
        is_over = self.clock.now > self.portal.lease_until
        wanted = any(
            replica.id == replica_id and replica.wish is DesiredReplicaState.RUN
            for replica in loop.desired.replicas
        )
        has_failed = replica_id in loop.journal.failures()
        return EndCause.LEASE_OVER if is_over and wanted and not has_failed else REQUESTED

    def _receive(self, document: ObservedDocument) -> None:
        """A report, sent at once or when contact is back. A replica that ended stays ended, and no
        state goes back (I7). The cause of an end is reported as it was (I11)."""
        self.pulls.receive(document)
        for replica in document.replicas:
            self._check_end(replica)
            before = self.reported_states.get(replica.id)
            if before is not None and ORDER[replica.state] < ORDER[before]:
                self.violations.add("I7", f"{replica.id} went from {before} to {replica.state}")
            if before is not None and ORDER[before] == 3 and replica.state is not before:
                self.violations.add("I7", f"{replica.id} had {before} and is {replica.state}")
            self.reported_states[replica.id] = replica.state
        applied = self.node.loop.desired.revision if self.node.loop else 0
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
            self.violations.add("I11", f"{sentence} {replica.exit_code}")
        if replica.code in END_CAUSES and ended_by == OWN_END and replica.id in self.seen_ends:
            self.violations.add("I11", f"{replica.id} ended by itself, and is {replica.code}")

    def _check(self) -> None:
        """The invariants that always hold, even with faults."""
        collisions = self.node.overlap.collisions
        for sentence in collisions:
            self.violations.add("I10", sentence)
        collisions.clear()
        running = self.engine.running()
        devices = Counter(device for given in running.values() for device in given)
        for device, count in devices.items():
            if count > 1:
                self.violations.add("I1", f"{count} containers run on {device}")
        there = self.node.device_uuids()
        for replica, given in running.items():
            if not set(given) <= there:
                self.violations.add("I1", f"{replica} runs on a slice that is not there")
        for replica, count in self.engine.starts.items():
            if count > 1:
                self.violations.add("I8", f"{replica} was started {count} times")
        fences: dict[str, int] = {}
        for replica in running:
            seen = self.engine.by_replica[replica]
            if seen.job in self.portal.elsewhere:
                self.violations.add("I12", f"{seen.job} has two live copies")
            newest = max(fences.get(seen.job, 0), seen.fence)
            if fences.get(seen.job, newest) != newest or seen.fence != newest:
                self.violations.add("I9", f"two attempts of {seen.job} run")
            fences[seen.job] = newest

    def _rest(self) -> None:
        """A while without faults and requests: then nothing superfluous is left (I4), everything
        desired runs or is reported as ended (I5), and the same document changes nothing (I8). Only
        a replica that waits for its image may take longer, and it alone (I13)."""
        self.cut_until = 0.0
        self.node.calm()
        for _ in range(REST_SECONDS):
            self._round()
        self._check_rest("I4" if self.pulls.is_over() else "I13")
        for _ in range(MAX_PULL_SECONDS):
            if self.pulls.is_over():
                break
            self._round()
        else:
            self.violations.add("I14", f"{len(self.node.images.pulls)} pulls do not end")
        self._check_rest("I4")
        desired = self.portal.document()
        wanted = {r.id for r in desired.replicas}
        for replica_id in wanted - self.engine.running().keys():
            if self.reported_states.get(replica_id) not in (
                ReplicaState.EXITED,
                ReplicaState.FAILED,
            ):
                self.violations.add("I5", f"{replica_id} neither runs nor was reported as ended")
        before = (dict(self.engine.by_replica), self.node.store.node())
        self._round()
        if (dict(self.engine.by_replica), self.node.store.node()) != before:
            self.violations.add("I8", "the same document changed the node")

    def _check_rest(self, invariant: str) -> None:
        """Nothing superfluous is left, and all slices are there."""
        desired = self.portal.document()
        for replica in self.engine.by_replica.keys() - {r.id for r in desired.replicas}:
            self.violations.add(invariant, f"{replica} is left")
        with self.switch.paused():
            there = self.node.slices()
        if there != {(s.start, s.profile) for s in desired.slices}:
            self.violations.add(invariant, f"slices are {sorted(there)}")
        threads, pulls = self.node.turns.count(), len(self.node.images.pulls)
        if threads != pulls:
            self.violations.add("I14", f"{threads} threads for {pulls} pulls")

    def _container_ends(self) -> None:
        running = sorted(self.engine.running())
        if running:
            self.engine.exit(self.random.choice(running), self.random.choice((0, 1, 137)))

    def _kill(self) -> None:
        """Kill the agent somewhere in the next rounds."""
        self.switch.kill_number = self.switch.passed + self.random.randint(1, 300)

    def _engine_away(self) -> None:
        self.node.engine_back_at = self.clock.now + self.random.randint(1, 8)

    def _image_away(self) -> None:
        self.node.set_registry(refuses=not self.engine.refuses)

    def _registry_silent(self) -> None:
        """Often longer than a pull may make no progress."""
        self.node.registry_back_at = self.clock.now + self.random.randint(1, 2 * STALL_SECONDS)

    def _prune(self) -> None:
        self.node.images.prune()

    def _crowd(self) -> None:
        """More pulls than the engine downloads at a time."""
        self.node.set_registry(refuses=False)
        self.node.images.prune()
        self.portal.crowd()

    def _driver_refuses(self) -> None:
        self.node.driver_fails = self.random.randint(1, 4)

    def _refresh_beside_changes(self) -> None:
        """The next partition changes are overlapped by refreshes of another thread (I10)."""
        self.node.overlap.remaining = self.random.randint(1, 6)

    def _agent_restart(self) -> None:
        """In order: it gives up what it pulls, and leaves what runs."""
        if self.node.loop is not None:
            with self.switch.paused():
                self.node.loop.stop()
            if self.node.images.pulls:
                self.violations.add("I14", "an agent that has ended pulls")
            self.node.end_agent()

    def _engine_restart(self) -> None:
        """It ends its containers first: with SIGTERM, if it is stopped in order."""
        self.engine.restart(self.random.choice((0, 137, 143)))

    def _host_shutdown(self) -> None:
        """In order: the agent ends, then the engine with its containers, then the host."""
        self.node.reboot(0)

    def _power_loss(self) -> None:
        """The engine finds containers that ran, and writes 255."""
        self.node.reboot(255)

    def _partition(self) -> None:
        """Often longer than the lease, and than the portal waits after it."""
        self.cut_until = self.clock.now + self.random.randint(1, 4 * LEASE_SECONDS)

    def _wait(self) -> None:
        """Nothing new."""


def random_walk(*, operations: int, seed: int) -> dict[str, Any]:
    """The steps and the number of violated invariants, as JSON data."""
    with tempfile.TemporaryDirectory(prefix="tessera-drill-") as folder:
        walk = RandomWalk(Path(folder), seed)
        walk.run(operations)
    return {
        "operations": operations,
        "seed": seed,
        "on_lease_end": walk.node.policy.on_lease_end,
        "virtual_seconds": round(walk.clock.now),
        "points": walk.switch.passed,
        "refreshes_beside_changes": walk.node.overlap.refreshes,
        "done": dict(sorted(walk.done.items())),
        "rounds_beside_full_pulls": walk.pulls.full_rounds,
        "violations": walk.violations.counts.total(),
        "by_invariant": dict(sorted(walk.violations.counts.items())),
        "first": walk.violations.first,
    }
