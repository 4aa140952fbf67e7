"""One Idempotency-Key from several callers at once on PostgreSQL: never two jobs."""

import pytest

from tests.services.programs import run_program

pytestmark = pytest.mark.services

ROUNDS = 20


@pytest.mark.slow
def test_one_key_never_makes_two_jobs(tmp_path, postgres_server):
    url = postgres_server.create_database(migrated=True)
    rate = {"TESSERA_RATE_SUBMITS": "100000/min"}
    told = run_program("key_race", ROUNDS, database=url, var=tmp_path, **rate)
    assert told["made"] == {"1": ROUNDS}
    assert (told["torn"], set(told["statuses"]) <= {"201", "409"}) == (0, True), told
