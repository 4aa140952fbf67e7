"""One user's burst of 5,000 jobs delays another user's job by no more than one planning pass."""

import re

import pytest

from tests.services.stack import Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow]

# More devices than jobs.
NODES, JOBS = 400, 5_000
PASS = re.compile(r"pass over (\d+) jobs: (\d+) placed, .* ([\d.]+) s and ([\d.]+) s")


@pytest.fixture
def stack(tmp_path, postgres_server, redis_server):
    url = postgres_server.create_database(migrated=True)
    running = Stack(var=tmp_path / "var", database_url=url, redis_url=redis_server.url(), nodes=())
    running.var.mkdir()
    try:
        yield running
    finally:
        running.__exit__()


def passes(stack):
    """Every pass that placed something: (jobs waiting, placed, seconds to decide, to commit)."""
    return [tuple(map(float, found)) for found in PASS.findall(stack.log("worker"))]


def test_a_burst_of_one_user_delays_another_users_job_by_no_more_than_one_pass(stack):
    seeded = stack.manage_program("tests.services.burst", "seed", str(NODES), str(JOBS))
    assert f'"queued": {JOBS}' in seeded
    stack.start_worker()
    until(lambda: passes(stack), what="the first pass over the burst")

    job = stack.manage_program("tests.services.burst", "submit")
    # A pass that had begun by now may not have read the job; the one after it has.
    under_way = len(passes(stack)) + 1

    def is_placed() -> bool:
        return '"bob": "placed"' in stack.manage_program("tests.services.burst", "counts", job)

    until(
        lambda: len(passes(stack)) > under_way or is_placed(),
        what="the pass after it",
    )
    assert is_placed(), passes(stack)

    log = stack.log("worker")
    assert "SoftTimeLimitExceeded" not in log
    assert "raised unexpected" not in log
    for waiting, placed, decided, committed in passes(stack):
        assert placed, "each pass has something to show"
        assert waiting <= JOBS + 1
        # An idle machine takes less than 10 s; a busy one ends a batch that it has begun.
        assert decided + committed < 25, "well before the soft time limit"
