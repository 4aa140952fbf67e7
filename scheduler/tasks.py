"""Celery tasks, rung by bells. A task carries primary keys only, re-reads its rows, and may run
twice or never."""

import gc
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from uuid import UUID

from celery import Task
from celery.signals import worker_init
from django.db import OperationalError
from django.utils import timezone

from portal.allocations.services import RELEASED_TOGETHER, allocations_release
from portal.availability.published import are_counts_recent, counts_publish
from portal.celery import app
from portal.database.reads import reads_together
from portal.desired.services import node_drive
from portal.diagnosis.services import diagnoses_refresh
from portal.job_services.drive import services_drive
from portal.leases.deadlines import deadline
from portal.leases.services import (
    continuation_read,
    continuation_write,
    done_within,
    run_exclusively,
)
from portal.live.bell import (
    answer_diagnoses,
    answer_drive,
    answer_plan,
    answer_services,
    is_plan_rung,
    renew_plan,
    ring_estimates,
    ring_plan,
)
from portal.metrics import PASS_SECONDS, PLACEMENTS
from portal.planning.history_cache import process_history
from portal.planning.node_cache import process_nodes
from portal.planning.planner_input import planner_input
from portal.planning.snapshot_cache import row_count
from portal.quotas.policy import current_policy
from portal.submission.limits import request_limits
from scheduler import sweeper
from scheduler.commit.order import owners_in_turn
from scheduler.commit.plan import CommitResult, commit
from scheduler.core.availability.cluster import cluster_availability
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.decisions import Continuation
from scheduler.core.plan import plan_and_places
from scheduler.estimates import EstimatePace, estimates_refresh
from scheduler.jit_warmup import before_fork
from scheduler.sites.own_nodes import unheard_nodes_ring
from scheduler.sites.reconcile import site_lease, site_reconcile
from scheduler.sites.registry import own_nodes

log = logging.getLogger(__name__)

# Seconds that a pass may decide; and from its beginning, after which it begins no transaction but
# its first one. What is left is done by the next pass, which is rung at once. With what follows a
# commit (reasons, counts, history: below 2 s), nobody holds the lease for over 10 s, well below
# CELERY_TASK_SOFT_TIME_LIMIT, which ends a pass at any point, even within a query.
DECIDE_SECONDS = 2.5
COMMIT_WITHIN_SECONDS = 7.0
# No further pass begins in a task that has run this long: other kinds of work have their turn.
NEXT_ROUND_WITHIN_SECONDS = 1.5
# A worker whose clock is wrong passes the ring of a pass on, and takes no message for this long.
PASS_ON_SECONDS = 1.0
# A sweep that is rung sooner after the last one has nothing to find. Well below SWEEP_SECONDS:
# where one comes late, the next one is not left out.
SWEEP_PAUSE_SECONDS = 1.0
# Those between the steps of long work leave it more of the time.
PAUSE_BETWEEN_STEPS_SECONDS = 2.0
# Work that takes longer than this sweeps between its steps: a worker of one process would else
# leave the sweep, which is rung every SWEEP_SECONDS, until a pass or estimates are done.
WITHOUT_SWEEP_SECONDS = 1.0

estimate_pace = EstimatePace()
worker_init.connect(before_fork)


def plan_once() -> None:
    """One planning pass: release, read, decide, commit, and drive the nodes that it changed.

    Estimates follow in a task of their own. What is free is counted, and the history that the next
    pass needs is read, after this one, so that they delay no placement.
    """
    begun, commit_is_over = time.monotonic(), deadline(COMMIT_WITHIN_SECONDS)
    between_steps = sweeps_between_steps()
    if allocations_release() == RELEASED_TOGETHER:
        ring_plan()
    with reads_together():
        continued = continuation_read("plan")
        policy, history = current_policy(), process_history()
        snapshot = planner_input(
            now=timezone.now(), policy=policy, history=history, nodes=process_nodes()
        )
    with gc_paused():
        decide_until = deadline(DECIDE_SECONDS)
        plan, places = plan_and_places(
            snapshot,
            policy,
            RuntimeModel.from_snapshot(snapshot),
            should_stop=lambda turns: decide_until(),
            continued=_continuation_from_json(continued),
        )
    decided = time.monotonic()
    if plan.continuation or continued:
        # Before the commit: one that fails, or is ended by the time limit, must not hold up the
        # jobs that had no turn yet. Jobs that are to start now had one, but are not left out.
        continuation_write("plan", _continuation_as_json(plan.continuation))
    plan = replace(plan, placements=owners_in_turn(plan.placements, snapshot.jobs))
    between_steps()
    result = commit(
        plan, own_nodes.drive_nodes, between_steps=between_steps, should_stop=commit_is_over
    )
    _count_placements(result, of=len(plan.placements))
    if plan.continuation or result.remaining:
        ring_plan()
    if plan.placements or plan.continuation or result.remaining:
        log.info(
            "pass over %d jobs: %d placed, %d stale, %d decisions left, %s; %.1f s and %.1f s",
            *(len(snapshot.jobs), result.placed, result.stale, result.remaining),
            "to be continued" if plan.continuation else "every job had its turn",
            *(decided - begun, time.monotonic() - decided),
        )
    if estimate_pace.is_due(snapshot, plan):
        ring_estimates()
    if plan.continuation is None and not (are_counts_recent() and is_plan_rung()):
        # With what this pass keeps. Jobs that had no turn yet may take more.
        count = partial(cluster_availability, snapshot, places, plan.merges, can_merge=policy.merge)
        with gc_paused():
            counts_publish(row_count(snapshot), count)
    with history.lock:
        history.refresh_if_stale(timezone.now())


def sweeps_between_steps() -> Callable[[], None]:
    """For work that begins now: what it calls between two steps, outside of transactions. It sweeps
    where that is due, once the work has taken WITHOUT_SWEEP_SECONDS; whether it is, it asks at most
    every PAUSE_BETWEEN_STEPS_SECONDS, as steps may be many and short."""
    is_time = deadline(WITHOUT_SWEEP_SECONDS)

    def sweep_if_long() -> None:
        nonlocal is_time
        if is_time():
            sweep_unless_recent(PAUSE_BETWEEN_STEPS_SECONDS)
            is_time = deadline(PAUSE_BETWEEN_STEPS_SECONDS)

    return sweep_if_long


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause Python's cycle collector; it stays off where it was off.

    Reference counting frees what a pass makes; scanning a snapshot of 6,000 GPUs for cycles would
    take a third of the pass.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _count_placements(result: CommitResult, of: int) -> None:
    PLACEMENTS.labels("placed").inc(result.placed)
    PLACEMENTS.labels("stale").inc(result.stale)
    PLACEMENTS.labels("left").inc(of - result.placed - result.stale)


def _continuation_as_json(continuation: Continuation | None) -> dict[str, list[str]] | None:
    if continuation is None:
        return None
    return {
        "considered": list(continuation.considered),
        "considered_again": list(continuation.considered_again),
    }


def _continuation_from_json(data: dict[str, list[str]] | None) -> Continuation | None:
    if data is None:
        return None
    return Continuation(tuple(data["considered"]), tuple(data["considered_again"]))


def _timed_pass() -> None:
    begun = time.monotonic()
    try:
        plan_once()
    except OperationalError as error:
        # What it had committed stays, and the next pass goes on from there.
        log.error("the pass ends, as the database failed: %s", str(error).strip())
        raise
    PASS_SECONDS.observe(time.monotonic() - begun)


@app.task(name="scheduler.tasks.plan", bind=True)
def plan(self: Task) -> bool:
    """A pass, if one was rung since the last one began: many rings are one pass. One that is rung
    during a pass follows at once, ahead of other kinds of work, for NEXT_ROUND_WITHIN_SECONDS."""
    if (self.request.delivery_info or {}).get("redelivered"):
        # The process that took its ring was killed, perhaps in the middle of the pass, or between
        # a commit and its bells.
        renew_plan()
        unheard_nodes_ring()
    return run_exclusively(
        name="plan",
        is_due=answer_plan,
        work=_timed_pass,
        seconds=NEXT_ROUND_WITHIN_SECONDS,
        ring_again=partial(ring_plan, repeat=True),
        is_rung=is_plan_rung,
        pass_on=_pass_on_plan,
    )


def _pass_on_plan() -> None:
    """Other workers take the message while this process waits."""
    ring_plan(repeat=True)
    time.sleep(PASS_ON_SECONDS)


@app.task(name="scheduler.tasks.foretell")
def estimate() -> bool:
    work = partial(estimates_refresh, between_steps=sweeps_between_steps())
    return run_exclusively(name="foretell", work=work, rounds=1)


@app.task(name="scheduler.tasks.diagnose")
def diagnose() -> bool:
    """What made jobs fail, for those that have ended since."""
    answer_diagnoses()
    return run_exclusively(name="diagnose", work=diagnoses_refresh, rounds=1)


@app.task(name="scheduler.tasks.services")
def services() -> bool:
    """A round over the services that people have created."""
    answer_services()
    drive_all = partial(services_drive, now=timezone.now(), limits=cache(request_limits))
    return run_exclusively(name="services", work=drive_all, rounds=1)


@app.task(name="scheduler.tasks.drive")
def drive(node_id: str) -> bool:
    answer_drive(node_id)
    return node_drive(node_id=UUID(node_id))


@app.task(name="scheduler.tasks.site")
def site(name: str) -> bool:
    return run_exclusively(name=site_lease(name), work=partial(site_reconcile, name))


@app.task(name="scheduler.tasks.sweep")
def sweep() -> bool:
    return sweep_unless_recent(SWEEP_PAUSE_SECONDS)


def sweep_unless_recent(pause_seconds: float) -> bool:
    """A sweep, unless one was completed within `pause_seconds`. False if another worker is at it.
    Not within a transaction."""
    return run_exclusively(
        name="sweep",
        is_due=lambda: not done_within("sweep", pause_seconds),
        work=sweeper.sweep,
        rounds=1,
    )
