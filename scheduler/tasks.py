"""The bells. A task carries primary keys only, re-reads its rows, and may run twice or never."""

from uuid import UUID

from django.utils import timezone

from portal.celery import app
from portal.duties.services import duty_do
from portal.quotas.policy import policy_now
from scheduler import sweeper
from scheduler.committer import commit
from scheduler.core.plan import plan as decide
from scheduler.driver import drive as drive_node
from scheduler.loader import load


def plan_once() -> None:
    """One planning pass: read, decide, commit, and drive the nodes that it changed."""
    policy = policy_now()
    snapshot = load(now=timezone.now(), policy=policy)
    committed = commit(decide(snapshot, policy))
    for node_id in sorted(committed.nodes):
        drive_node(node_id=node_id)


@app.task(name="scheduler.tasks.plan")
def plan() -> bool:
    return duty_do(name="plan", work=plan_once)


@app.task(name="scheduler.tasks.drive")
def drive(node_id: str) -> bool:
    return drive_node(node_id=UUID(node_id))


@app.task(name="scheduler.tasks.sweep")
def sweep() -> bool:
    return duty_do(name="sweep", work=sweeper.sweep, rounds=1)
