"""A pass that is killed leaves its ring to the process that comes after it; of one that had not
begun, the sweep sends the task again."""

import os
import signal

import psycopg
import pytest
import redis

from tests.services.stack import Stack, until
from tests.services.worker_processes import child_processes, working_processes

pytestmark = [pytest.mark.services, pytest.mark.slow]
JOBS = 3
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
PLACED = "SELECT count(*) FROM jobs_job WHERE status = 'placed'"


@pytest.fixture
def stack(tmp_path, postgres_server, redis_server):
    """Without nodes; nothing of it runs yet."""
    url = postgres_server.create_database(migrated=True)
    stack = Stack(var=tmp_path / "var", database_url=url, redis_url=redis_server.url(13), nodes=())
    stack.var.mkdir()
    yield stack
    stack.__exit__()


def test_the_pass_is_made_again_though_nothing_rings_it_again(stack, postgres_server):
    database = stack.database_url.rpartition("/")[2]
    stack.manage_program("tests.services.burst", "seed", "1", str(JOBS))
    with (
        psycopg.connect(stack.database_url) as owner,
        psycopg.connect(stack.database_url, autocommit=True) as reader,
    ):
        # The commit of the pass has to wait, so the pass is killed in the middle of it.
        owner.execute("SELECT 1 FROM quotas_quota FOR UPDATE")
        stack.start_worker(beat=False)
        until(
            lambda: reader.execute(WAITING, [database]).fetchone()[0],
            seconds=300,
            what="the pass to commit",
        )
        worker = stack.running["worker"].pid
        for pid in working_processes(worker, postgres_server.port):
            os.kill(pid, signal.SIGKILL)
        owner.rollback()
        until(
            lambda: reader.execute(PLACED).fetchone()[0] == JOBS,
            seconds=120,
            what="the pass after it",
        )
    assert stack.log("worker").count(" ready.") == 1, "the worker itself went on"


def test_a_pass_that_had_not_begun_is_made_though_its_task_seems_to_be_on_its_way(stack):
    with (
        psycopg.connect(stack.database_url, autocommit=True) as reader,
        redis.Redis.from_url(stack.redis_url) as broker,
    ):
        stack.start_worker(beat=False)
        until(lambda: " ready." in stack.log("worker"), what="the worker")
        for pid in child_processes(stack.running["worker"].pid):
            os.kill(pid, signal.SIGSTOP)
        stack.manage_program("tests.services.burst", "seed", "1", str(JOBS))
        until(lambda: broker.hlen("unacked"), what="the worker to take the task")
        stack.kill("worker")
        # Neither the minute after which it counts as lost, nor the broker, sends it again.
        assert broker.persist("tessera:pending:plan")
        assert broker.delete("unacked", "unacked_index") == 2
        stack.start_worker()
        until(lambda: reader.execute(PLACED).fetchone()[0] == JOBS, seconds=120, what="the sweep")
