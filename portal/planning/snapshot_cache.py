"""The rows of now as the planner sees them, with its pass over them, for questions that people ask.

    world_now() ─▶ World: snapshot, policy, Outlook, Standing (one pass over the queue)
    with world.asking(): world.standing.asked(job), world.starts.of(job, …)   one question at a time

A process keeps its last world. While no event and no audit line was written since, what can be
missing from it is little: facts that a node tells, rows changed by hand, the time that passed; for
KEPT_SECONDS at most. A large cluster takes seconds to read and changes all the time: there it is
kept for LARGE_KEPT_SECONDS whatever happens, and while it is read anew behind the one who asks.
`World.at` says of when an answer is.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from threading import Lock, Thread

from django.db import Error, connections
from django.db.models import Count, Max, Q
from django.utils import timezone

from agents.contract.boards import Board
from portal.audit.models import AuditEntry, Event
from portal.inventory.models import Gpu
from portal.planning.estimates import past_estimates
from portal.planning.history_cache import HistoryCache, process_history
from portal.planning.planner_input import planner_input
from portal.quotas.policy import current_policy
from scheduler.core.devices.options import gpu_board
from scheduler.core.forecast.calibration import EstimateRecord
from scheduler.core.forecast.pass_estimates import TrialEstimates
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot
from scheduler.core.placement.feasibility import ClusterCapacity
from scheduler.core.queue_trial import QueueTrial

log = logging.getLogger(__name__)
MAX_AGE_SECONDS, LARGE_MAX_AGE_SECONDS = 60, 10
# GPUs, waiting and running jobs together, from which a world is large: it takes half a second.
LARGE = 5_000
Version = tuple[int, int, int, int]


def _in_a_thread(work: Callable[[], None]) -> None:
    Thread(target=work, name="world", daemon=True).start()


run_in_background = _in_a_thread


@dataclass
class CachedSnapshot:
    """What was read `at` a moment. Parts that few questions need are made when one does."""

    at: datetime
    version: Version
    history: HistoryCache
    snapshot: ClusterSnapshot
    policy: Policy
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def locked(self) -> Iterator["CachedSnapshot"]:
        """One at a time: questions use the same ledger."""
        with self._lock:
            yield self

    @cached_property
    def capacity(self) -> ClusterCapacity:
        return ClusterCapacity(self.snapshot)

    @property
    def boards(self) -> list[Board]:
        """Every kind of board that some node has, by key."""
        return self.capacity.boards

    @cached_property
    def gpus(self) -> dict[str, tuple[str, int, str]]:
        """Name of the node, index, and key of the board, by the id of the GPU."""
        return {
            gpu.id: (node.name, gpu.index, gpu_board(gpu).key)
            for node in self.snapshot.nodes
            for gpu in node.gpus
        }

    @cached_property
    def outlook(self) -> RuntimeModel:
        return RuntimeModel.from_snapshot(self.snapshot)

    @cached_property
    def trial(self) -> QueueTrial:
        return QueueTrial(self.snapshot, self.policy, self.outlook)

    @cached_property
    def past_estimates(self) -> list[EstimateRecord]:
        return past_estimates(self.at)

    @cached_property
    def start_estimator(self) -> TrialEstimates:
        plan = self.trial.plan
        return TrialEstimates(self.snapshot, self.policy, self.outlook, plan, self.past_estimates)

    @property
    def is_large(self) -> bool:
        there = self.snapshot
        gpus = sum(len(node.gpus) for node in there.nodes)
        return gpus + len(there.jobs) + len(there.running) >= LARGE

    def prepare(self) -> None:
        """All that questions need, so that none has to wait for it."""
        _ = self.capacity, self.gpus, self.trial, self.start_estimator

    def is_fresh(self, now: datetime, version: Version, history: HistoryCache) -> bool:
        """Whether it may still be asked. A clock that went back makes it too old."""
        age = now - self.at
        if history is not self.history or age < timedelta(0):
            return False
        if version == self.version and age < timedelta(seconds=MAX_AGE_SECONDS):
            return True
        return self.is_large and age < timedelta(seconds=LARGE_MAX_AGE_SECONDS)

    def may_serve_stale(self, now: datetime) -> bool:
        """Whether it may be asked while the rows are read anew."""
        return self.is_large and timedelta(0) <= now - self.at < timedelta(seconds=MAX_AGE_SECONDS)


_last: list[CachedSnapshot] = []
_reading, _renewing = Lock(), Lock()


def current_snapshot() -> CachedSnapshot:
    """The kept one, or the rows of now in a constant number of queries."""
    if kept := _kept():
        return kept
    with _reading:
        # Somebody else may have read it meanwhile.
        if kept := _kept():
            return kept
        return _keep(_read())


def clear() -> None:
    """What was read is of another database: for tests."""
    _last.clear()


def _kept() -> CachedSnapshot | None:
    now, lately = timezone.now(), process_history()
    kept = _last[0] if _last else None
    if kept is None or kept.is_fresh(now, _version(), lately):
        return kept
    if not kept.may_serve_stale(now):
        return None
    if _renewing.acquire(blocking=False):
        run_in_background(_renew)
    return kept


def _renew() -> None:
    try:
        _keep(_read())
    except Error as away:
        log.warning("the snapshot was not read: %s", away)
    finally:
        connections.close_all()
        _renewing.release()


def _keep(world: CachedSnapshot) -> CachedSnapshot:
    """As the last one. A large one with all that questions need, so that none of them waits."""
    if world.is_large:
        world.prepare()
    _last[:] = [world]
    if world.is_large:
        _spare_the_collector()
    return world


def _read() -> CachedSnapshot:
    now, history, version = timezone.now(), process_history(), _version()
    policy = current_policy()
    snapshot = planner_input(now=now, policy=policy, history=history)
    return CachedSnapshot(now, version, history, snapshot, policy)


def _spare_the_collector() -> None:
    """A large world is a million objects that stay: looking through them for garbage would hold up
    some answer by a third of a second. What was set aside before is looked through here."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _version() -> Version:
    """Every change of a status, and every change by a person of what the planner goes by, writes an
    event or an audit line in its transaction. GPUs come, and are used by others, without one."""
    last, is_busy = Max("id", default=0), ~Q(busy="")
    event, entry = (kept.objects.aggregate(last=last)["last"] for kept in (Event, AuditEntry))
    gpus = Gpu.objects.aggregate(there=Count("pk"), busy=Count("pk", filter=is_busy))
    return event, entry, gpus["there"], gpus["busy"]
