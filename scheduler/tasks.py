"""The bells. A task carries primary keys only, re-reads its rows, and may run twice or never."""

from collections.abc import Iterable
from uuid import UUID

from celery.signals import worker_init
from django.utils import timezone

from portal.celery import app
from portal.leases.services import duty_do
from portal.live.bell import ring_foretell
from portal.planning.history_cache import lately_here
from portal.quotas.policy import policy_now
from scheduler import sweeper
from scheduler.commit.placements import commit
from scheduler.core.forecast.runtime_model import Outlook
from scheduler.core.plan import plan as decide
from scheduler.driver import drive as drive_node
from scheduler.estimates import Pace, foretell_once
from scheduler.gc_pause import without_collector
from scheduler.jit_warmup import before_fork
from scheduler.loader import load

_pace = Pace()
worker_init.connect(before_fork)


def plan_once() -> None:
    """One planning pass: read, decide, commit, and drive the nodes that it changed. Those who wait
    are told the rest by a task of its own, and what the next pass wants to know of the past is read
    when this one is done."""
    policy, lately = policy_now(), lately_here()
    snapshot = load(now=timezone.now(), policy=policy, lately=lately)
    with without_collector():
        decided = decide(snapshot, policy, Outlook.of(snapshot))
    commit(decided, _drive_each)
    if _pace.is_due(snapshot, decided):
        ring_foretell()
    with lately.lock:
        lately.look_if_due(timezone.now())


def _drive_each(nodes: Iterable[UUID]) -> None:
    for node_id in sorted(nodes):
        drive_node(node_id=node_id)


@app.task(name="scheduler.tasks.plan")
def plan() -> bool:
    return duty_do(name="plan", work=plan_once)


@app.task(name="scheduler.tasks.foretell")
def foretell() -> bool:
    return duty_do(name="foretell", work=foretell_once, rounds=1)


@app.task(name="scheduler.tasks.drive")
def drive(node_id: str) -> bool:
    return drive_node(node_id=UUID(node_id))


@app.task(name="scheduler.tasks.sweep")
def sweep() -> bool:
    return duty_do(name="sweep", work=sweeper.sweep, rounds=1)
