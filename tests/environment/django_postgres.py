"""Runs this process's Django, in every thread, on a PostgreSQL database of the test's own.

For tests of locks and races, which SQLite with its single writer would hide.
"""

from __future__ import annotations

from collections.abc import Iterator

import environ
import pytest
from django.db import connections
from pytest_django.plugin import DjangoDbBlocker

from tests.environment.postgres import PostgresServer


@pytest.fixture
def postgres_django(
    postgres_server: PostgresServer, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    """The URL of the migrated database that `default` means until the test ends.

    Transactions are real. Programs that the test starts take the URL as TESSERA_DATABASE_URL.
    A thread of the test closes its connection itself, as everywhere in Django.
    """
    url = postgres_server.create_database(migrated=True)
    before = connections.settings["default"]
    with django_db_blocker.unblock():
        use_database(before | {"OPTIONS": {}} | environ.Env.db_url_config(url))
        try:
            yield url
        finally:
            use_database(before)
            postgres_server.drop_database(url)


def use_database(settings: dict[str, object]) -> None:
    """Use these settings for each thread's next connection; close the one of this thread."""
    connections["default"].close()
    connections.settings["default"] = settings
    del connections["default"]
