"""A worker that dies between the commit of a document and the node's bell leaves an open call that
waits: who takes its task rings again, and so does the next sweep."""

from collections.abc import Callable
from uuid import UUID

import pytest
from django.db.models import F

from portal.desired.services import node_drive
from portal.inventory.models import Node
from portal.live import bell
from scheduler import tasks
from scheduler.core.model.states import NodeStatus
from scheduler.sites.registry import own_nodes
from scheduler.tasks import plan_once
from scheduler.unsettled import unheard_nodes
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db


@pytest.fixture
def placed_on() -> UUID:
    """The one of two nodes that has not applied its document."""
    nodes, alice = [a_node(), a_node()], a_user()
    for node in nodes:
        node_drive(node_id=node.row.pk)
    settle(*nodes)
    a_job(alice, a_project("", alice), device={"gpus": 1})
    plan_once()
    (pk,) = unheard_nodes()
    return pk


@pytest.fixture
def rung(monkeypatch, django_capture_on_commit_callbacks):
    """The nodes that work has rung, after its commit."""

    def nodes_rung(work: Callable[[], object]) -> list[str]:
        keys = list[str]()
        monkeypatch.setattr(bell, "_ring", keys.extend)
        with django_capture_on_commit_callbacks(execute=True):
            work()
        return [key for key in keys if key.startswith("node:")]

    return nodes_rung


def plan_again() -> None:
    """As Celery does with the task of a process that was killed."""
    tasks.plan.push_request(delivery_info={"redelivered": True})
    try:
        tasks.plan.run()
    finally:
        tasks.plan.pop_request()


@pytest.mark.parametrize("work", [own_nodes.drive, plan_again])
def test_a_node_that_has_not_applied_its_document_is_rung_again(placed_on, rung, work):
    assert rung(work) == [f"node:{placed_on}"]


def test_a_node_that_has_applied_its_document_is_not(placed_on, rung):
    Node.objects.update(applied_revision=F("revision"))
    assert rung(own_nodes.drive) == []


def test_a_silent_node_is_not(placed_on, rung):
    Node.objects.filter(pk=placed_on).update(status=NodeStatus.LOST)
    assert rung(own_nodes.drive) == []
