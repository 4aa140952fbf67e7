"""Loads the servers that tests may ask for, and gives every test a past of its own."""

import pytest

from portal.planning import history_cache as lately
from portal.planning import snapshot_cache as world

pytest_plugins = [
    "tests.environment.levels",
    "tests.environment.workers",
    "tests.environment.django_sqlite",
    "tests.environment.postgres",
    "tests.environment.django_postgres",
    "tests.environment.redis",
    "tests.environment.docker_engine",
    "tests.environment.chromium",
]


@pytest.fixture(autouse=True)
def nothing_is_kept_of_another_tests_rows() -> None:
    """A worker keeps what it read of the past; every test has a database of its own."""
    lately.clear_all()
    world.clear()
