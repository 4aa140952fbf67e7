"""The replicas of a coroutine agent: their states as time goes by, instead of processes."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from agents.contract.documents import DesiredReplicaState, ObservedReplica, ReplicaState

# What a process runtime needs from the document until the process runs.
START_SECONDS = 0.02
ENDED = (ReplicaState.EXITED, ReplicaState.FAILED)
SIGTERM_EXIT = 143


@dataclass(frozen=True, slots=True)
class ReplicaTimes:
    """When a replica's process would have run, in seconds since the Unix epoch, by its job."""

    job: str
    started_at: float
    ended_at: float


class Replicas:
    """What runs on one node. `on_change` is called with each change that a report should carry.

    A replica of a gang of one starts by itself; the others wait for their rendezvous. Each runs for
    `run_seconds`, prints one line, and ends with 0."""

    def __init__(
        self,
        run_seconds: float,
        on_change: Callable[[], None],
        on_end: Callable[[ReplicaTimes], None],
    ) -> None:
        self.run_seconds = run_seconds
        self.observed: dict[str, ObservedReplica] = {}
        # Whose one line of log is still to be sent.
        self.unshipped: set[str] = set()
        self._wishes: dict[str, DesiredReplicaState] = {}
        self._started: dict[str, float] = {}
        self._on_change, self._on_end = on_change, on_end

    def accept(self, desired: list[dict[str, Any]]) -> None:
        """The replicas of a desired document, as JSON."""
        self._wishes = {}
        for replica in desired:
            self._follow(replica)
        self.forget_removed()

    def shipped(self, replica: str) -> None:
        self.unshipped.discard(replica)
        self.forget_removed()

    def forget_removed(self) -> None:
        """A replica that is not desired is removed once it has ended and its log is sent."""
        gone = [
            key
            for key, seen in self.observed.items()
            if key not in self._wishes and key not in self.unshipped and seen.state in ENDED
        ]
        for key in gone:
            del self.observed[key]
            self._started.pop(key, None)
        if gone:
            self._on_change()

    def _follow(self, desired: dict[str, Any]) -> None:
        key, wish = desired["id"], DesiredReplicaState(desired["wish"])
        self._wishes[key] = wish
        seen = self.observed.get(key)
        if seen is None:
            self._prepare(desired)
        elif wish is DesiredReplicaState.STOP and seen.state not in ENDED:
            self._move(key, ReplicaState.EXITED, SIGTERM_EXIT)
        elif wish is DesiredReplicaState.RUN and seen.state is ReplicaState.READY:
            self._run(key)

    def _prepare(self, desired: dict[str, Any]) -> None:
        key = desired["id"]
        self.observed[key] = ObservedReplica(
            id=key,
            job=desired["job"],
            attempt=desired["attempt"],
            rank=desired["rank"],
            fence=desired["fence"],
            state=ReplicaState.PREPARING,
            container=f"c-{key}",
            address="127.0.0.1",
            port=29_500,
        )
        asyncio.get_running_loop().call_later(START_SECONDS, self._prepared, key)
        self._on_change()

    def _prepared(self, key: str) -> None:
        seen = self.observed.get(key)
        if seen is None or seen.state is not ReplicaState.PREPARING:
            return
        if self._wishes.get(key) is DesiredReplicaState.RUN:
            self._run(key)
        else:
            self._move(key, ReplicaState.READY)

    def _run(self, key: str) -> None:
        self._started[key] = time.time()
        self.unshipped.add(key)
        self._move(key, ReplicaState.RUNNING)
        asyncio.get_running_loop().call_later(self.run_seconds, self._finish, key)

    def _finish(self, key: str) -> None:
        seen = self.observed.get(key)
        if seen is not None and seen.state is ReplicaState.RUNNING:
            self._move(key, ReplicaState.EXITED, 0)

    def _move(self, key: str, state: ReplicaState, exit_code: int | None = None) -> None:
        seen = self.observed[key]
        self.observed[key] = replace(seen, state=state, exit_code=exit_code)
        if state is ReplicaState.EXITED and key in self._started:
            self._on_end(ReplicaTimes(seen.job, self._started[key], time.time()))
        self._on_change()
