"""Two reports of one gang at once, from two nodes, beside a planning pass: no deadlock, and the
right end each time. `python -m tests.services.gang_race 1000` takes a database of its own."""

import pytest

from tests.environment.debian import POSTGRES
from tests.environment.levels import skip_without
from tests.environment.postgres import running_postgres
from tests.services.programs import run_program

pytestmark = pytest.mark.services


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_two_reports_of_one_gang_at_once(tmp_path):
    gangs = 120
    skip_without(POSTGRES)
    with running_postgres(("deadlock_timeout=10ms", "log_lock_waits=on")) as server:
        url = server.create_database(migrated=True)
        found = run_program("gang_race", gangs, database=url, var=tmp_path)
        log = (server.home / "log").read_text(errors="replace")
    failed = sum(number % 3 > 0 for number in range(gangs))
    assert found["passes"], "there were passes beside the reports"
    assert found | {"passes": 0} == {
        "ended": {"succeeded": gangs - failed, "failed": failed},
        "errors": {},
        "wrong": {},
        "passes": 0,
    }
    assert "still waiting for" in log, "some waited for others, long enough to look for deadlocks"
    assert "deadlock detected" not in log
