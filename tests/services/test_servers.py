"""The servers that other tests lean on: they start, survive a crash, and are really apart."""

import psycopg
import pytest
import redis
from django.db import connection

from portal.accounts.models import User
from tests.environment.postgres import PostgresServer
from tests.environment.redis import RedisServer

pytestmark = pytest.mark.services


def test_postgres_keeps_committed_rows_over_a_restart(postgres_server: PostgresServer):
    url = postgres_server.create_database()
    with psycopg.connect(url) as before:
        before.execute("CREATE TABLE kept AS SELECT 7 AS n")
    postgres_server.stop()
    postgres_server.start()
    with psycopg.connect(url) as after:
        assert after.execute("SELECT n FROM kept").fetchone() == (7,)
    postgres_server.drop_database(url)


def test_postgres_breaks_connections_when_killed_and_comes_back(postgres_server: PostgresServer):
    with psycopg.connect(postgres_server.url()) as held:
        postgres_server.kill()
        with pytest.raises(psycopg.OperationalError):
            held.execute("SELECT 1")
    postgres_server.start()
    with psycopg.connect(postgres_server.url()) as fresh:
        assert fresh.execute("SELECT 1").fetchone() == (1,)


def test_databases_are_apart(postgres_server: PostgresServer):
    one, other = (postgres_server.create_database() for _ in range(2))
    with psycopg.connect(one) as connected:
        connected.execute("CREATE TABLE mine ()")
    with psycopg.connect(other) as connected:
        assert connected.execute("SELECT to_regclass('mine')").fetchone() == (None,)
    postgres_server.drop_database(one)
    postgres_server.drop_database(other)


def test_django_moves_onto_postgres_and_back(postgres_django: str):
    assert connection.vendor == "postgresql"
    User.objects.create_user("somebody", password="pw")
    with psycopg.connect(postgres_django) as beside:
        assert beside.execute("SELECT username FROM accounts_user").fetchall() == [("somebody",)]


@pytest.mark.django_db
def test_django_is_on_its_usual_database_without_it():
    assert connection.vendor == "sqlite"


def test_redis_forgets_everything_when_killed(redis_server: RedisServer):
    with redis.Redis.from_url(redis_server.url()) as client:
        client.set("bell", "rung")
        assert client.get("bell") == b"rung"
        redis_server.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        redis_server.start()
        assert client.get("bell") is None
