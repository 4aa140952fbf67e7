"""`/livez` and `/readyz`: asked by address and without TLS, and right about what is missing."""

import asyncio
import contextlib
import threading
from types import SimpleNamespace

import httpx
import pytest
from django.db import DatabaseError, OperationalError
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from portal import health
from portal.asgi import application
from portal.live.listener import listener
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db(transaction=True)
# Neither is a name of the portal, and a page would be redirected to HTTPS.
PROBER = "http://172.18.0.7:8000"


@pytest.fixture(autouse=True)
def production(settings, monkeypatch):
    settings.ALLOWED_HOSTS = ["gpu.example.org"]
    settings.SECURE_SSL_REDIRECT = True
    monkeypatch.setattr(health, "readiness", health.Readiness())
    # A busy machine answers late.
    monkeypatch.setattr(health, "DATABASE_SECONDS", 300.0)


@pytest.fixture
def database(monkeypatch):
    """The database, which responds as long as it is `here`."""
    state = SimpleNamespace(here=True, asked=0, query=health._query)

    def query():
        state.asked += 1
        if not state.here:
            raise OperationalError("connection refused")
        state.query()

    monkeypatch.setattr(health, "_query", query)
    return state


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=1_000.0)
    monkeypatch.setattr(health, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


@contextlib.contextmanager
def last_migration_undone():
    """As the database of an older version has it."""
    recorder = MigrationRecorder(health.connection)
    ((app, name),) = MigrationLoader(health.connection).graph.leaf_nodes("jobs")
    recorder.record_unapplied(app, name)
    try:
        yield
    finally:
        recorder.record_applied(app, name)


def ask(*paths, method="GET", draining=False):
    """Status and text of each call, one after the other, in one web process."""

    async def calls():
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url=PROBER) as client:
            if draining:
                listener().drain()
            try:
                return [await client.request(method, path) for path in paths]
            finally:
                await listener().close()

    return [(answer.status_code, answer.text.strip()) for answer in asyncio.run(calls())]


def test_a_process_that_serves_is_alive_and_ready_for_any_host_name():
    assert ask("/livez", "/readyz") == [(200, "ok"), (200, "ok")]
    assert Client().get("/healthz", headers={"host": "172.18.0.7"}).status_code == 400


def test_without_its_database_it_is_alive_and_not_ready(database):
    database.here = False
    assert ask("/livez", "/readyz") == [(200, "ok"), (503, health.NO_DATABASE)]


def test_it_is_ready_again_when_the_database_is_back(database, clock):
    database.here = False
    assert ask("/readyz") == [(503, health.NO_DATABASE)]
    database.here = True
    assert ask("/readyz") == [(503, health.NO_DATABASE)]
    clock.seconds += health.KEPT_SECONDS
    assert ask("/readyz") == [(200, "ok")]


def test_a_database_without_a_migration_is_not_ready_and_one_with_more_is(database, clock):
    with last_migration_undone():
        assert ask("/readyz") == [(503, health.NOT_MIGRATED)]
    clock.seconds += health.KEPT_SECONDS
    recorder = MigrationRecorder(health.connection)
    recorder.record_applied("jobs", "9999_of_the_next_version")
    try:
        assert ask("/readyz") == [(200, "ok")]
    finally:
        recorder.record_unapplied("jobs", "9999_of_the_next_version")


def test_a_database_that_was_away_may_be_an_older_one(database, clock):
    assert ask("/readyz") == [(200, "ok")]
    database.here = False
    clock.seconds += health.KEPT_SECONDS
    assert ask("/readyz") == [(503, health.NO_DATABASE)]
    database.here = True
    clock.seconds += health.KEPT_SECONDS
    with last_migration_undone():
        assert ask("/readyz") == [(503, health.NOT_MIGRATED)]


def test_a_process_that_shuts_down_wants_no_more_requests():
    assert ask("/livez", "/readyz", draining=True) == [(200, "ok"), (503, health.DRAINING)]


def test_many_callers_are_one_query(database, clock):
    assert ask(*["/readyz"] * 20) == [(200, "ok")] * 20
    assert database.asked == 1


def test_a_database_that_hangs_is_asked_once_and_waited_for_a_moment(monkeypatch):
    begun, goes_on = [], threading.Event()

    def hangs():
        begun.append(True)
        goes_on.wait()
        raise DatabaseError("it went away")

    monkeypatch.setattr(health, "_query", hangs)
    monkeypatch.setattr(health, "DATABASE_SECONDS", 0.05)

    async def calls():
        try:
            return [await health.readiness.problem(is_draining=False) for _ in range(3)]
        finally:
            goes_on.set()

    assert asyncio.run(calls()) == [health.NO_DATABASE] * 3
    assert len(begun) == 1


@pytest.mark.parametrize("path", health.PROBES)
def test_a_probe_is_read_and_not_written(path):
    assert ask(path, method="HEAD") == [(200, "")]
    assert ask(path, method="POST") == [(405, "only GET and HEAD")]


@pytest.mark.parametrize("path", ["/sign-in/", "/", "/api/v1/jobs"])
def test_pages_and_rest_say_when_to_come_again_while_the_database_is_away(path, monkeypatch):
    client = Client(raise_request_exception=False)
    client.force_login(a_user("olga"))

    def refused(*args, **kwargs):
        raise OperationalError("connection refused")

    monkeypatch.setattr("django.db.backends.utils.CursorWrapper.execute", refused)
    answer = client.get(path, headers={"host": "gpu.example.org"}, secure=True)
    monkeypatch.undo()
    if path == "/sign-in/" and answer.status_code == 200:
        pytest.skip("this page asked the database nothing")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    if path.startswith("/api/"):
        assert answer.json()["code"] == "database_unavailable"
        assert answer.json()["request_id"] == answer["X-Request-Id"]
    else:
        assert f"<code>{answer['X-Request-Id']}</code>" in answer.content.decode()
