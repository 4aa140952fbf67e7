"""Celery tasks, rung by bells. A task carries primary keys only, re-reads its rows, and may run
twice or never."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from celery.signals import worker_init
from django.utils import timezone

from portal.celery import app
from portal.leases.services import run_exclusively
from portal.live.bell import ring_estimates
from portal.planning.history_cache import process_history
from portal.planning.planner_input import planner_input
from portal.quotas.policy import current_policy
from scheduler import sweeper
from scheduler.commit.plan import commit
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.plan import plan as decide
from scheduler.driver import drive as drive_node
from scheduler.estimates import EstimatePace, estimates_refresh
from scheduler.jit_warmup import before_fork

estimate_pace = EstimatePace()
worker_init.connect(before_fork)


def plan_once() -> None:
    """One planning pass: read, decide, commit, and drive the nodes that it changed.

    Estimates follow in a task of their own. The history that the next pass needs is read after this
    one, so that it delays no placement.
    """
    policy, history = current_policy(), process_history()
    snapshot = planner_input(now=timezone.now(), policy=policy, history=history)
    with gc_paused():
        plan = decide(snapshot, policy, RuntimeModel.from_snapshot(snapshot))
    commit(plan, _drive_each)
    if estimate_pace.is_due(snapshot, plan):
        ring_estimates()
    with history.lock:
        history.refresh_if_stale(timezone.now())


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


def _drive_each(nodes: Iterable[UUID]) -> None:
    for node_id in sorted(nodes):
        drive_node(node_id=node_id)


@app.task(name="scheduler.tasks.plan")
def plan() -> bool:
    return run_exclusively(name="plan", work=plan_once)


@app.task(name="scheduler.tasks.foretell")
def estimate() -> bool:
    return run_exclusively(name="foretell", work=estimates_refresh, rounds=1)


@app.task(name="scheduler.tasks.drive")
def drive(node_id: str) -> bool:
    return drive_node(node_id=UUID(node_id))


@app.task(name="scheduler.tasks.sweep")
def sweep() -> bool:
    return run_exclusively(name="sweep", work=sweeper.sweep, rounds=1)
