"""5,000 jobs of one person by the command line, at the rate that a portal takes as shipped, and the
portal is killed and started again in the middle: none is lost, and none is submitted twice."""

import subprocess
import sys

import psycopg
import pytest

from tests.services.stack import ROOT, Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.soak]
JOBS = 5_000
# All that belongs to a job, once each.
ONCE = (
    "SELECT count(*) FROM jobs_job WHERE status = 'queued'",
    "SELECT count(DISTINCT uid) FROM jobs_job",
    "SELECT count(*) FROM audit_event WHERE noun = 'job' AND new = 'queued'",
)
COMMAND = ("--image", "tessera-example:latest", "--gpus", "1", "--", "true")


def test_5000_jobs_through_a_restart_of_the_portal(tmp_path, postgres_server, redis_server):
    url = postgres_server.create_database(migrated=True)
    stack = Stack(var=tmp_path / "var", database_url=url, redis_url=redis_server.url(14))
    log = tmp_path / "cli.log"
    try:
        stack.seed("tests.services.seed", "node-a")
        stack.manage_program("tests.services.burst", "nodes", "1")
        stack.start_web()
        with (
            psycopg.connect(url, autocommit=True) as reader,
            log.open("wb") as errors,
            subprocess.Popen(
                [sys.executable, "-m", "portal.cli", "submit", "--count", str(JOBS), *COMMAND],
                cwd=ROOT,
                env=stack.env
                | {"TESSERA_URL": stack.url, "TESSERA_TOKEN": stack.seeded["token"]}
                | {"TESSERA_CONFIG": str(tmp_path / "config.yaml"), "NO_PROXY": "*"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as cli,
        ):

            def count(statement: str) -> int:
                return int(reader.execute(statement).fetchone()[0])

            try:
                until(lambda: count(ONCE[0]) or cli.poll(), seconds=300, what="the first jobs")
                assert cli.poll() is None, log.read_text()
                stack.kill("web")
                stack.start_web()
                output, _ = cli.communicate(timeout=1_200)
            finally:
                cli.kill()
            assert cli.returncode == 0, log.read_text()
            assert [count(statement) for statement in ONCE] == [JOBS] * 3
    finally:
        stack.__exit__()
    ids = output.split()
    assert len(ids) == len(set(ids)) == JOBS, "each is printed once"
    said = log.read_text()
    assert "Submitting 5,000 jobs, some at a time" in said
    assert "; the portal takes more in " in said
    assert "Submitted 5,000 jobs" in said
