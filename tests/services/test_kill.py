"""kill -9 in the middle of work: the job finishes, nothing starts twice, nothing stays behind."""

import json
from pathlib import Path

import pytest

from tests.environment.programs import runs
from tests.environment.redis import running_redis
from tests.services.stack import Stack, until

pytestmark = pytest.mark.services

# Counts its own starts in a file, runs until a file appears, then ends well.
PROGRAM = """
import os, pathlib, time
home = pathlib.Path({home!r})
name = os.environ["TESSERA_RANK"]
with (home / f"starts-{{name}}").open("a") as starts:
    starts.write(f"{{os.getpid()}}\\n")
print("started", flush=True)
while not (home / "finish").exists():
    time.sleep(0.05)
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory, postgres_server, redis_server):
    """Each test ends the jobs that it started, and starts again what it killed."""
    var, url = tmp_path_factory.mktemp("killed"), postgres_server.create_database(migrated=True)
    with Stack(var=var, database_url=url, redis_url=redis_server.url()) as running:
        yield running


def program(home: Path) -> list[str]:
    return ["python3", "-c", PROGRAM.format(home=str(home))]


def starts(home: Path, rank: int) -> list[int]:
    path = home / f"starts-{rank}"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def instances(stack: Stack) -> int:
    """MIG instances in all simulated drivers together."""
    states = [stack.var / "nodes" / name / "driver.json" for name in stack.nodes]
    return sum(state.read_text().count('"MIG-') for state in states)


@pytest.mark.slow
def test_an_agent_killed_while_its_job_runs_adopts_it(stack, tmp_path):
    job = stack.submit(program(tmp_path), replicas=2, topology="any")
    stack.until_status(job, "running")
    until(lambda: starts(tmp_path, 0) and starts(tmp_path, 1), what="both ranks to start")
    for name in stack.nodes:
        stack.kill(name)
    assert all(runs(starts(tmp_path, rank)[0]) for rank in (0, 1)), "jobs outlive their agent"
    for name in stack.nodes:
        stack.start_agent(name)
    (tmp_path / "finish").touch()
    seen = stack.until_status(job, "succeeded", "failed")
    assert seen["status"] == "succeeded", json.dumps(seen, indent=1)
    assert [len(starts(tmp_path, rank)) for rank in (0, 1)] == [1, 1]
    assert len(seen["attempts"]) == 1


@pytest.mark.slow
def test_a_job_that_ends_while_its_agent_is_dead_is_still_told(stack, tmp_path):
    job = stack.submit(program(tmp_path))
    stack.until_status(job, "running")
    until(lambda: starts(tmp_path, 0), what="the rank to start")
    for name in stack.nodes:
        stack.kill(name)
    (tmp_path / "finish").touch()
    (pid,) = starts(tmp_path, 0)
    until(lambda: not runs(pid), what="the job to end by itself")
    for name in stack.nodes:
        stack.start_agent(name)
    seen = stack.until_status(job, "succeeded", "failed")
    assert seen["status"] == "succeeded"
    log = until(lambda: stack.call("GET", f"/jobs/{job}/logs"), what="its log")
    assert log.splitlines() == ["started", "done"]


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_dispatch(stack, tmp_path):
    """Whatever the worker was at, the rows are the truth and the next worker goes on from them."""
    jobs = []
    for number in range(4):
        home = tmp_path / str(number)
        home.mkdir()
        (home / "finish").touch()
        jobs.append(stack.submit(program(home)))
        stack.kill("worker")
        stack.start_worker()
    for number, job in enumerate(jobs):
        seen = stack.until_status(job, "succeeded", "failed", "cancelled")
        assert seen["status"] == "succeeded", seen
        assert len(starts(tmp_path / str(number), 0)) == 1, "started once, and once only"
        assert len(seen["attempts"]) == 1


@pytest.mark.slow
def test_nothing_is_left_behind(stack, tmp_path):
    before = instances(stack)
    job = stack.submit(program(tmp_path))
    stack.until_status(job, "running")
    until(lambda: starts(tmp_path, 0), what="the rank to start")
    stack.call("POST", f"/jobs/{job}/cancel")
    stack.until_status(job, "cancelled")
    (pid,) = starts(tmp_path, 0)
    assert not runs(pid)
    assert instances(stack) <= max(1, before), "a warm slice may stay; nothing else does"
    until(lambda: _free(stack), what="its quota to be free again")


def _free(stack: Stack) -> bool:
    return all(q["used_units"] == 0 for q in stack.call("GET", "/quotas")["results"])


@pytest.mark.slow
def test_redis_is_away_while_a_job_is_asked_for(tmp_path, postgres_server):
    """The submit is taken at once; what was not rung meanwhile is found when Redis is back."""
    url = postgres_server.create_database(migrated=True)
    with (
        running_redis() as own,
        Stack(var=tmp_path / "var", database_url=url, redis_url=own.url(), nodes=("node-a",)) as it,
    ):
        own.kill()
        job = it.submit(["true"])
        assert it.job(job)["status"] == "queued"
        own.start()
        it.until_status(job, "succeeded")
