"""A pass that is killed at any statement leaves whole batches; the next pass places the rest."""

import pytest

from tests.services.programs import run_program

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.soak]


def test_nothing_is_lost_or_doubled(tmp_path, postgres_server):
    url = postgres_server.create_database(migrated=True)
    found = run_program("broken_passes", 1, database=url, var=tmp_path)
    assert found["wrong"] == {}
    assert found["tried"] >= 60
    assert found["left"] == [0, 2, 4, 6], "each batch is whole"
