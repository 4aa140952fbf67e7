"""A pass that is killed leaves its ring to the process that comes after it."""

import os
import signal

import psycopg
import pytest

from tests.services.stack import Stack, until
from tests.services.worker_processes import working_processes

pytestmark = [pytest.mark.services, pytest.mark.slow]
JOBS = 3
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
PLACED = "SELECT count(*) FROM jobs_job WHERE status = 'placed'"


def test_the_pass_is_made_again_though_nothing_rings_it_again(
    tmp_path, postgres_server, redis_server
):
    url = postgres_server.create_database(migrated=True)
    stack = Stack(var=tmp_path / "var", database_url=url, redis_url=redis_server.url(13), nodes=())
    stack.var.mkdir()
    database = url.rpartition("/")[2]
    try:
        stack.manage_program("tests.services.burst", "seed", "1", str(JOBS))
        with (
            psycopg.connect(url) as owner,
            psycopg.connect(url, autocommit=True) as reader,
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
    finally:
        stack.__exit__()
