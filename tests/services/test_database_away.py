"""The database goes away in the middle of a batch, or between two: what was not committed is as it
was, and the next pass goes on."""

from itertools import count

import environ
import psycopg
import pytest
from django.db import OperationalError, connection, connections

from portal.allocations.models import Allocation
from portal.audit.models import Event
from portal.inventory.models import Slice, SlotClaim
from portal.jobs.models import Attempt, Job, Replica
from portal.live import bell
from portal.quotas.models import Quota
from scheduler import tasks
from scheduler.commit import plan as commit_plan
from scheduler.core.model.states import JobStatus
from tests.environment.debian import POSTGRES
from tests.environment.django_postgres import use_database
from tests.environment.levels import skip_without
from tests.environment.postgres import running_postgres
from tests.support.many_jobs import many_jobs
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.services
JOBS, BATCH = 6, 2


@pytest.fixture(autouse=True)
def lonely_passes(monkeypatch) -> None:
    """Passes are called, no bell starts one; and a busy machine ends none."""
    monkeypatch.setattr(bell, "_send_once", lambda *_, **__: None)
    monkeypatch.setattr(tasks, "DECIDE_SECONDS", 600)
    monkeypatch.setattr(tasks, "COMMIT_WITHIN_SECONDS", 600)
    monkeypatch.setattr(commit_plan, "BATCH_SIZE", BATCH)


def a_queue() -> None:
    alice = a_user("alice")
    a_node("only", gpus=JOBS)
    many_jobs(a_job(alice, a_project("vision", alice), device={"gpus": 1}), JOBS - 1, reason=None)


def placed() -> int:
    """How many jobs are; every other row agrees."""
    number = Job.objects.filter(status=JobStatus.PLACED).count()
    assert Job.objects.queued().count() == JOBS - number
    for rows in (Attempt, Replica, Allocation, Slice):
        assert rows.objects.count() == number, rows
    assert SlotClaim.objects.count() == 8 * number
    assert Quota.objects.get().used_units == 56_000 * number
    assert Event.objects.filter(new=JobStatus.PLACED).count() == number
    return number


class EndsItsSession:
    """Ends the session of this process before its second batch commits: after `before` of the
    statements with which that batch writes."""

    def __init__(self, url: str, before: int) -> None:
        self.url, self.before = url, before
        self._writes, self._batches = count(), 0

    def __call__(self, execute, sql, params, many, context):
        is_write = sql.startswith(("INSERT INTO", "UPDATE"))
        if is_write and '"jobs_attempt"' in sql:
            # The first statement that a batch writes with.
            self._batches += 1
        if is_write and self._batches == 2 and next(self._writes) == self.before:
            with psycopg.connect(self.url, autocommit=True) as other:
                ended = other.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid = %s",
                    [connection.connection.info.backend_pid],
                )
                assert ended.fetchone() == (True,)
        return execute(sql, params, many, context)


@pytest.mark.parametrize("before", [0, 1, 3, 5])
def test_a_session_that_ends_within_a_batch_takes_that_batch_back_alone(postgres_django, before):
    a_queue()
    with (
        connection.execute_wrapper(EndsItsSession(postgres_django, before)),
        pytest.raises(OperationalError),
    ):
        tasks.plan_once()
    # As Celery's tasks do before each one.
    connection.close_if_unusable_or_obsolete()
    assert placed() == BATCH, "the first batch is whole, and the second one never was"
    tasks.plan_once()
    assert placed() == JOBS


def test_the_task_says_why_it_ended_and_the_next_one_plans(postgres_django, caplog):
    a_queue()
    bell.renew_plan()
    with (
        connection.execute_wrapper(EndsItsSession(postgres_django, 1)),
        pytest.raises(OperationalError),
    ):
        tasks.plan.run()
    assert "the pass ends, as the database failed: " in caplog.text
    assert "terminating connection due to administrator command" in caplog.text
    connection.close_if_unusable_or_obsolete()
    assert placed() == BATCH
    bell.renew_plan()
    assert tasks.plan.run()
    assert placed() == JOBS


@pytest.mark.slow
def test_a_server_that_is_started_again_between_two_batches(django_db_blocker, monkeypatch, caplog):
    """It breaks the session of the pass and that of its lease."""
    skip_without(POSTGRES)
    calls = count(1)
    commit = commit_plan.placements_commit

    def commit_later(*arguments):
        if next(calls) == 2:
            server.stop()
            server.start()
        return commit(*arguments)

    monkeypatch.setattr(commit_plan, "placements_commit", commit_later)
    before = connections.settings["default"]
    with running_postgres() as server, django_db_blocker.unblock():
        url = server.create_database(migrated=True)
        use_database(before | {"OPTIONS": {}} | environ.Env.db_url_config(url))
        try:
            a_queue()
            bell.renew_plan()
            with pytest.raises(OperationalError):
                tasks.plan.run()
            assert "the pass ends, as the database failed: " in caplog.text
            assert "the lease plan ended with its connection" in caplog.text
            connection.close_if_unusable_or_obsolete()
            assert placed() == BATCH
            bell.renew_plan()
            assert tasks.plan.run()
            assert placed() == JOBS
        finally:
            use_database(before)
