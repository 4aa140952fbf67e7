"""What must be true while images are pulled, however many of them (I13, I14)."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from agents.contract.documents import DesiredReplicaState, ObservedDocument
from agents.contract.lease import LeaseEnd
from agents.contract.pulls import PullCause
from agents.drill.clock import Clock
from agents.drill.images import DOWNLOADS
from agents.drill.violations import Violations
from agents.drill.walk_node import WalkNode
from agents.loop.node import NodeLoop

# After the last pull, a replica is prepared in one round and started in the next.
START_SECONDS = 5
# The first round after a stop was ordered may be the one that records why.
STOP_ROUNDS = 2
# A change that the driver does not refuse is made in far fewer rounds. After a refusal the carver
# pauses before it tries again, at most so long.
CARVE_ROUNDS, REFUSAL_SECONDS = 8, 20
# A pull that was given up as stalled is reported as that until its next try.
STALL_SHOWN_SECONDS = 60


class PullChecks:
    """I13: nothing waits for a pull. I14: a pull is made for replicas that wait for its image, once
    at a time, and is given up only by reason."""

    def __init__(self, node: WalkNode, violations: Violations) -> None:
        # Rounds, after which more pulls were under way than download at a time.
        self.full_rounds = 0
        # Replicas whose pull the node reported last.
        self.reported: frozenset[str] = frozenset()
        self._node, self._violations = node, violations
        self._engine, self._clock = node.engine, node.clock
        self._last_pull_at = self._last_silence_at = float("-inf")
        # Rounds for which a replica ought to have been stopped, and slices carved.
        self._overdue: Counter[str] = Counter()
        self._uncarved = 0

    def receive(self, document: ObservedDocument) -> None:
        pulls = {replica.id: replica.pull for replica in document.replicas if replica.pull}
        self.reported = frozenset(pulls)
        heard = self._clock.now - self._last_silence_at > STALL_SHOWN_SECONDS
        for replica, pull in pulls.items():
            if pull.cause == PullCause.STALLED and heard:
                self._violations.add("I14", f"{replica} waits for a pull that never stalled")

    @contextmanager
    def round(self, loop: NodeLoop) -> Iterator[None]:
        """One round of the agent that nothing cuts short."""
        images = self._engine.images
        if images.is_silent or images.is_away:
            self._last_silence_at = self._clock.now
        began = self._clock.now
        yield
        if images.pulls or self.reported:
            self._last_pull_at = self._clock.now
        if self._clock.now > began:
            seconds = self._clock.now - began
            self._violations.add("I13", f"a round waited {seconds:.0f} s for a pull")
        self._check_stops(loop)
        self._check_carving(loop)
        self._check_pulls(loop)

    def is_over(self) -> bool:
        """Whether no image is being pulled, and what waited for one has been started."""
        return self._clock.now > self._last_pull_at + START_SECONDS

    def _check_stops(self, loop: NodeLoop) -> None:
        stops = self._stops(loop) & self._engine.running().keys()
        self._overdue = Counter({replica: self._overdue[replica] + 1 for replica in stops})
        for replica, rounds in self._overdue.items():
            if rounds == STOP_ROUNDS:
                pulls = len(self._engine.images.pulls)
                self._violations.add("I13", f"{replica} is not stopped, beside {pulls} pulls")

    def _check_carving(self, loop: NodeLoop) -> None:
        """Slices are not there, and neither the driver nor a container can be why."""
        desired = loop.desired
        with self._node.switch.paused():
            there = self._node.slices()
        is_due = not {(s.start, s.profile) for s in desired.slices} <= there
        refused = self._clock.now - self._node.refused_at < REFUSAL_SECONDS
        others = self._engine.by_replica.keys() - {replica.id for replica in desired.replicas}
        self._uncarved = self._uncarved + 1 if is_due and not refused and not others else 0
        if self._uncarved == CARVE_ROUNDS:
            pulls = len(self._engine.images.pulls)
            self._violations.add("I13", f"slices are not carved, beside {pulls} pulls")

    def _stops(self, loop: NodeLoop) -> set[str]:
        """The replicas that must not run."""
        wishes = {replica.id: replica.wish for replica in loop.desired.replicas}
        is_over = self._is_lease_over(loop)
        return {
            replica
            for replica in self._engine.by_replica
            if is_over
            or (
                wishes.get(replica, DesiredReplicaState.STOP) is DesiredReplicaState.STOP
                and (replica in wishes or loop.may_remove)
            )
        }

    def _check_pulls(self, loop: NodeLoop) -> None:
        failed = loop.journal.failures().keys() | self._engine.by_replica.keys()
        wanted = {
            replica.image
            for replica in loop.desired.replicas
            if replica.wish is not DesiredReplicaState.STOP and replica.id not in failed
        }
        if self._is_lease_over(loop):
            wanted.clear()
        pulled = Counter(pull.image for pull in self._engine.images.pulls)
        self.full_rounds += len(pulled) > DOWNLOADS
        for image, count in pulled.items():
            if image not in wanted:
                self._violations.add("I14", f"{image} is pulled, and no replica waits for it")
            if count > 1:
                self._violations.add("I14", f"{image} is pulled {count} times at once")

    def _is_lease_over(self, loop: NodeLoop) -> bool:
        now = self._clock.clock_gettime(Clock.CLOCK_BOOTTIME)
        return loop.policy.on_lease_end == LeaseEnd.STOP and loop.lease.is_over(now)
