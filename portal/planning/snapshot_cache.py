"""The planner's snapshot of now, with one pass over it, for questions that people ask.

    current_snapshot()    ─▶ CachedSnapshot: snapshot, policy, runtime model, QueueTrial
    current_snapshot().availability ─▶ what is free, see scheduler.core.availability
    with cached.locked(): cached.trial.try_job(job), cached.start_estimator.estimate(job, …)

A process keeps its last snapshot. While no event and no audit line was written since, it can miss
only what a node reports, rows changed by hand, and the passing of time, and is kept for
MAX_AGE_SECONDS. A large cluster takes seconds to read and changes all the time: there a snapshot is
kept for LARGE_MAX_AGE_SECONDS whatever happens, and serves while a new one is read in the
background. `CachedSnapshot.at` dates every answer.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from threading import Lock, Thread
from typing import Any

from django.db import Error, connections
from django.db.models import Count, Max, Q, QuerySet, Subquery, Value
from django.utils import timezone

from agents.contract.boards import Board
from portal.audit.models import AuditEntry, Event
from portal.inventory.models import Gpu, Node
from portal.planning.estimates import past_estimates
from portal.planning.history_cache import HistoryCache, process_history
from portal.planning.node_cache import process_nodes
from portal.planning.planner_input import planner_input
from portal.quotas.policy import current_policy
from scheduler.core.availability.cluster import ClusterAvailability, cluster_availability
from scheduler.core.devices.options import gpu_board
from scheduler.core.forecast.calibration import EstimateRecord
from scheduler.core.forecast.pass_estimates import TrialEstimates
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot
from scheduler.core.model.states import GpuHealth, NodeStatus
from scheduler.core.placement.feasibility import ClusterCapacity
from scheduler.core.queue_trial import QueueTrial
from scheduler.core.quota.promises import QuotaPromise, quota_promises

log = logging.getLogger(__name__)
MAX_AGE_SECONDS, LARGE_MAX_AGE_SECONDS = 60, 10
# GPUs, waiting and running jobs together, from which a snapshot is large: reading takes 0.5 s.
LARGE = 5_000
Version = tuple[Any, ...]


def _in_thread(work: Callable[[], None]) -> None:
    Thread(target=work, name="snapshot", daemon=True).start()


run_in_background = _in_thread


@dataclass
class CachedSnapshot:
    """A snapshot read at a moment. Derived parts are made when first used."""

    at: datetime
    version: Version
    history: HistoryCache
    snapshot: ClusterSnapshot
    policy: Policy
    _lock: Lock = field(default_factory=Lock)
    _availability: ClusterAvailability | None = None

    @contextmanager
    def locked(self) -> Iterator["CachedSnapshot"]:
        """For one question at a time: all of them use the same ledger."""
        with self._lock:
            yield self

    @cached_property
    def capacity(self) -> ClusterCapacity:
        return ClusterCapacity(self.snapshot)

    @property
    def availability(self) -> ClusterAvailability:
        """What is free beside what the pass keeps for waiting jobs. Not inside `locked`."""
        if self._availability is None:
            with self._lock:
                self._availability = self._availability or self._count()
        return self._availability

    def _count(self) -> ClusterAvailability:
        found = cluster_availability(
            self.snapshot,
            self.trial.places,
            self.trial.plan.merges,
            can_merge=self.policy.merge,
        )
        return replace(found, may_lag=self.is_large)

    @cached_property
    def promises(self) -> tuple[QuotaPromise, ...]:
        """Quota that the pass keeps for waiting jobs. Within `locked`."""
        return quota_promises(self.snapshot, self.trial.places)

    @property
    def boards(self) -> list[Board]:
        """Every kind of board that some node has, by key."""
        return self.capacity.boards

    @cached_property
    def gpus(self) -> dict[str, tuple[str, int, str]]:
        """By id of the GPU: name of its node, index, and key of its board."""
        return {
            gpu.id: (node.name, gpu.index, gpu_board(gpu).key)
            for node in self.snapshot.nodes
            for gpu in node.gpus
        }

    @cached_property
    def runtime_model(self) -> RuntimeModel:
        return RuntimeModel.from_snapshot(self.snapshot)

    @cached_property
    def trial(self) -> QueueTrial:
        return QueueTrial(self.snapshot, self.policy, self.runtime_model)

    @cached_property
    def past_estimates(self) -> list[EstimateRecord]:
        return past_estimates(self.at)

    @cached_property
    def start_estimator(self) -> TrialEstimates:
        plan = self.trial.plan
        return TrialEstimates(
            self.snapshot, self.policy, self.runtime_model, plan, self.past_estimates
        )

    @cached_property
    def is_large(self) -> bool:
        return row_count(self.snapshot) >= LARGE

    def prepare(self) -> None:
        """Make the derived parts now, so that no question waits for them."""
        _ = self.capacity, self.gpus, self.trial, self.start_estimator, self.availability

    def is_fresh(self, now: datetime, version: Version, history: HistoryCache) -> bool:
        """Whether it may answer questions. A clock that went back makes it too old."""
        age = now - self.at
        if history is not self.history or age < timedelta(0):
            return False
        if version == self.version and age < timedelta(seconds=MAX_AGE_SECONDS):
            return True
        return self.is_large and age < timedelta(seconds=LARGE_MAX_AGE_SECONDS)

    def may_serve_stale(self, now: datetime) -> bool:
        """Whether it may answer while a new snapshot is read."""
        return self.is_large and timedelta(0) <= now - self.at < timedelta(seconds=MAX_AGE_SECONDS)


def row_count(snapshot: ClusterSnapshot) -> int:
    """GPUs, waiting and running jobs."""
    gpus = sum(len(node.gpus) for node in snapshot.nodes)
    return gpus + len(snapshot.jobs) + len(snapshot.running)


_last: list[CachedSnapshot] = []
# When somebody last asked.
_asked_at: list[datetime] = []
_reading, _renewing = Lock(), Lock()


def current_snapshot() -> CachedSnapshot:
    """The cached snapshot, or a new one in a constant number of queries."""
    _asked_at[:] = [timezone.now()]
    if cached := _cached():
        return cached
    with _reading:
        # Another thread may have read it meanwhile.
        if cached := _cached():
            return cached
        return _store(_read())


def renew_for_next_question(*, older_than: timedelta, question_within: timedelta) -> None:
    """Read a large cluster anew before anybody asks: if the last snapshot is older, and somebody
    asked within this time. No query where it is not due."""
    now = timezone.now()
    if not _last or not _asked_at or not _last[0].is_large:
        return
    is_due = now - _last[0].at >= older_than and now - _asked_at[0] < question_within
    if is_due and _renewing.acquire(blocking=False):
        _renew()


def clear() -> None:
    """Drop the cached snapshot: tests change the database."""
    _last.clear()
    _asked_at.clear()


def _cached() -> CachedSnapshot | None:
    now, history = timezone.now(), process_history()
    cached = _last[0] if _last else None
    if cached is None or cached.is_fresh(now, _version(), history):
        return cached
    if not cached.may_serve_stale(now):
        return None
    if _renewing.acquire(blocking=False):
        run_in_background(_renew)
    return cached


def _renew() -> None:
    try:
        _store(_read())
    except Error as error:
        log.warning("the snapshot was not read: %s", error)
    finally:
        connections.close_all()
        _renewing.release()


def _store(cached: CachedSnapshot) -> CachedSnapshot:
    if cached.is_large:
        cached.prepare()
    _last[:] = [cached]
    if cached.is_large:
        freeze_garbage_collector()
    return cached


def _read() -> CachedSnapshot:
    now, history, version = timezone.now(), process_history(), _version()
    policy = current_policy()
    snapshot = planner_input(now=now, policy=policy, history=history, nodes=process_nodes())
    return CachedSnapshot(now, version, history, snapshot, policy)


def freeze_garbage_collector() -> None:
    """Freeze all present objects, since they stay: a large snapshot is a million of them, the code
    of the portal half a million, and scanning them for cycles would delay some answer by a third of
    a second. Earlier frozen objects that have become garbage are collected first."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _version() -> Version:
    """Changes with every status and with every decision of a person that the planner reads: both
    write an event or an audit line in their transaction. GPUs appear, fail and are used by foreign
    processes, and nodes block themselves, without one. One query, as every answer asks it."""
    event, entry = (_last_id(model) for model in (Event, AuditEntry))
    takes_work = Q(
        status=NodeStatus.ONLINE,
        schedulable=True,
        facts__blocks__0__isnull=True,
        holding_since=None,
        restored_at=None,
    )
    closed = Node.objects.exclude(takes_work).order_by().annotate(all=Value(1)).values("all")
    found = Gpu.objects.aggregate(
        event=Max(Subquery(event)),
        entry=Max(Subquery(entry)),
        count=Count("pk"),
        out=Count("pk", filter=~Q(busy="", health=GpuHealth.OK)),
        closed=Max(Subquery(closed.annotate(count=Count("pk")).values("count"))),
    )
    if not found["count"]:
        found |= {"event": event.first(), "entry": entry.first()}
    return tuple(found.values())


def _last_id(model: type[Event] | type[AuditEntry]) -> QuerySet[Any, Any]:
    return model.objects.order_by("-id").values_list("id", flat=True)[:1]
