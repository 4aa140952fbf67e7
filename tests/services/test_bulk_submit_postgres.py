"""On PostgreSQL a bulk submit has a fixed number of statements, and limits of a project hold under
two at once: of waiting jobs, and of services."""

import threading

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.accounts.models import Project
from portal.audit.models import Event
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.job_services import services
from portal.job_services.models import JobService
from portal.jobs.models import Job
from portal.live import bell
from portal.submission.services import BulkRefusedError, jobs_submit
from tests.services.lock_waits import waits_for_lock
from tests.services.stack import until
from tests.support.rows import LIMITS, a_node, a_project, a_request, a_user
from tests.support.service_rows import a_service

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
    assert counts[1] == counts[2] <= counts[0] <= 13
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


def test_two_at_once_never_pass_the_limit_of_services(monkeypatch):
    monkeypatch.setattr(services, "MAX_SERVICES", 1)
    alice = a_user("alice")
    a_node("n1")
    vision = a_project("vision", alice)
    audit, counted, refused = services._audit, [], []

    def audit_beside_the_other(*facts) -> None:
        """Between the count and the commit: the other one has counted as well, or waits."""
        counted.append(facts)
        until(lambda: len(counted) == 2 or waits_for_lock(), every=0.02)
        audit(*facts)

    def create(name: str) -> None:
        try:
            a_service(alice, vision, name)
        except Refused as error:
            refused.append(error.code)
        finally:
            connection.close()

    monkeypatch.setattr(services, "_audit", audit_beside_the_other)
    threads = [threading.Thread(target=create, args=(name,)) for name in ("llm", "chat")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert JobService.objects.live().count() == 1
    assert refused == [ErrorCode.TOO_MANY_ITEMS]
