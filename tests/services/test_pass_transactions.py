"""How many transactions a planning pass is on PostgreSQL, where a statement alone is one, too."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.database.reads import reads_together
from portal.inventory.models import Node
from portal.live import bell
from scheduler.core.model.states import JobStatus
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("postgres_django")]


def transactions(work) -> tuple[int, int]:
    """And how many statements are in them."""
    with CaptureQueriesContext(connection) as seen:
        work()
    count, statements, is_open = 0, 0, False
    for word in (query["sql"].split()[0] for query in seen):
        if word == "BEGIN":
            is_open = True
            count += 1
        elif word == "COMMIT":
            is_open = False
        else:
            statements += 1
            count += not is_open
    return count, statements


def test_a_pass_reads_in_one_transaction(monkeypatch):
    monkeypatch.setattr(bell, "_send_once", lambda *_, **__: None)
    alice = a_user("alice")
    vision = a_project("vision", alice)
    a_node(gpus=2)
    # The first pass also reads what its process keeps.
    for _ in range(2):
        job = a_job(alice, vision, device={"gpus": 1})
        found, statements = transactions(plan_once)
        job.refresh_from_db()
        assert job.status == JobStatus.PLACED
    # What is to be released, all that the pass decides by, the placement, and what is written of
    # jobs that wait: promises and reasons.
    assert (found, statements > 30) == (5, True)


def test_what_is_read_together_is_as_new_as_what_is_read_alone():
    """Each statement sees what has been committed by then, as the parts of a pass rely on."""
    a_node("n1")
    Node.objects.update(fabric="before")
    with reads_together():
        assert Node.objects.get().fabric == "before"
        other = connection.copy()
        try:
            with other.cursor() as cursor:
                cursor.execute("UPDATE inventory_node SET fabric = 'after'")
        finally:
            other.close()
        assert Node.objects.get().fabric == "after"
