"""Two committers racing for the last device on PostgreSQL: never two winners."""

import pytest

from tests.services.programs import run_program

pytestmark = [pytest.mark.services, pytest.mark.slow]

ROUNDS = 200


@pytest.mark.parametrize("mode", ["checked", "unchecked"])
def test_two_committers_never_both_win(mode, tmp_path, postgres_server):
    """`unchecked`: even a committer without its own check is stopped by the database."""
    url = postgres_server.create_database(migrated=True)
    told = run_program("race", ROUNDS, mode, database=url, var=tmp_path)
    assert told["winners"] == {"1": ROUNDS}
    assert told["wrong"] == 0
