"""Two committers give two gangs their networks at once on PostgreSQL: never the same addresses."""

import pytest

from tests.services.programs import run_program

pytestmark = pytest.mark.services
ROUNDS = 20


def race(postgres_server, tmp_path, addresses):
    url = postgres_server.create_database(migrated=True)
    # A range in which both begin to look at the same place.
    env = {"TESSERA_GANG_NETWORK_RANGE": addresses}
    return run_program("network_race", ROUNDS, database=url, var=tmp_path, **env)


@pytest.mark.slow
def test_two_gangs_never_share_an_address(tmp_path, postgres_server):
    told = race(postgres_server, tmp_path, "10.213.0.0/26")
    assert told["overlaps"] == 0
    assert sum(told["winners"].values()) == ROUNDS
    assert "0" not in told["winners"], "at least one of them got its network"
