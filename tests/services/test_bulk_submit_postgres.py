"""A bulk submit on PostgreSQL: a fixed number of statements, and limits under two at once."""

import threading

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.accounts.models import Project
from portal.audit.models import Event
from portal.jobs.models import Job
from portal.live import bell
from portal.submission.services import BulkRefusedError, jobs_submit
from tests.support.rows import LIMITS, a_node, a_project, a_request, a_user

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("postgres_django")]


@pytest.fixture(autouse=True)
def silent_bells(monkeypatch):
    monkeypatch.setattr(bell, "_send", lambda *call: None)


def test_the_statements_do_not_grow_with_the_jobs():
    alice = a_user("alice")
    a_node("n1")
    vision = a_project("vision", alice)
    counts = []
    for size in (1, 2, 1_000):
        with CaptureQueriesContext(connection) as seen:
            jobs_submit(user=alice, bodies=[a_request(vision)] * size, limits=LIMITS)
        counts.append(len(seen))
    assert counts[1] == counts[2] <= counts[0] <= 14
    assert Job.objects.queued().count() == 1_003
    assert Event.objects.filter(noun="job").count() == 2 * 1_003


def test_two_at_once_never_pass_the_limit_of_waiting_jobs():
    alice = a_user("alice")
    a_node("n1")
    vision = a_project("vision", alice)
    Project.objects.update(max_pending=60)
    start, refused = threading.Barrier(6), []

    def submit() -> None:
        start.wait(300)
        try:
            jobs_submit(user=alice, bodies=[a_request(vision)] * 20, limits=LIMITS)
        except BulkRefusedError as error:
            refused.append(sorted(error.problems))
        finally:
            connection.close()

    threads = [threading.Thread(target=submit) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Job.objects.waiting().count() == 60
    assert refused == [list(range(20))] * 3
