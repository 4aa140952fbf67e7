"""On PostgreSQL a lease ends with the connection of its holder: however the holder dies, the next
worker has it at once, and no clock is asked."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from math import inf
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.utils import timezone

from portal.leases import claims
from portal.leases.claims import PooledSessionError
from portal.leases.models import TaskLease
from portal.leases.services import run_exclusively
from portal.live import bell
from portal.live.bell import ring_plan
from scheduler import tasks
from tests.services.stack import ROOT, until

pytestmark = pytest.mark.services

# Far below the minute that a lease by the clock would last.
AT_ONCE = 50


@contextlib.contextmanager
def holder(url: str, limit: float = 0, **extra: str) -> Iterator[subprocess.Popen]:
    """A worker that holds the lease `plan`, in the middle of a query."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.services.lease_holder", "plan", str(limit)],
        cwd=ROOT,
        env=os.environ | {"TESSERA_DATABASE_URL": url, "PYTHONPATH": str(ROOT)} | extra,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def wrong_clock(monkeypatch: pytest.MonkeyPatch, minutes: int) -> Iterator[None]:
    wrong = SimpleNamespace(time=lambda: time.time() + minutes * 60, monotonic=time.monotonic)
    with monkeypatch.context() as patched:
        patched.setattr(claims, "time", wrong)
        patched.setattr(claims, "_skew_logged_at", -inf)
        yield


def is_free() -> bool:
    return run_exclusively(name="plan", work=lambda: None)


def test_a_holder_that_is_killed_in_a_query_leaves_the_lease_free(postgres_django):
    with holder(postgres_django) as process:
        assert not is_free()
        process.kill()
        until(is_free, seconds=AT_ONCE, what="the lease of the dead worker")


@pytest.mark.slow
def test_a_time_limit_within_a_query_leaves_the_lease_free(postgres_django):
    """The connection of the work is of no use any more: a query is still under way on it."""
    with holder(postgres_django, limit=1) as process:
        assert process.stdout.readline() == "limit\n"
        assert is_free()
        assert process.poll() is None, "the worker lives on"


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [-10, 10])
def test_clocks_that_differ_by_minutes_make_no_two_holders(postgres_django, monkeypatch, minutes):
    with holder(postgres_django):
        now = timezone.now
        monkeypatch.setattr(timezone, "now", lambda: now() + timedelta(minutes=minutes))
        assert not is_free()
        assert TaskLease.objects.get().rung, "the holder does one more round"


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_worker_whose_clock_is_wrong_by_minutes_leaves_the_work_to_others(
    postgres_django, monkeypatch, caplog, minutes
):
    """It would find every node silent, or every deadline past."""
    with wrong_clock(monkeypatch, minutes):
        passed_on: list[bool] = []
        pass_on = partial(passed_on.append, True)
        work = partial(pytest.fail, "by a wrong clock")
        assert not run_exclusively(name="plan", work=work, pass_on=pass_on)
        assert passed_on == [True], "nobody else knows of the ring"
    (skew,) = re.findall(r"([+-]\d+) s off", caplog.text)
    # What the question took is not counted.
    assert minutes * 60 - 60 < int(skew) < minutes * 60 + 60
    assert is_free()
    assert not TaskLease.objects.get().rung, "the next worker has done it"


def test_a_worker_whose_clock_is_wrong_passes_the_ring_of_a_pass_on(postgres_django, monkeypatch):
    """It marks that a pass is on its way; while that stands, the sweep's rings send nothing."""
    sent: list[str] = []
    monkeypatch.setattr(bell, "_send", lambda name, *arguments: sent.append(name) or True)
    monkeypatch.setattr(tasks, "PASS_ON_SECONDS", 0)
    monkeypatch.setattr(tasks, "plan_once", partial(pytest.fail, "by a wrong clock"))
    ring_plan()
    ring_plan()
    assert sent == [bell.PLAN_TASK]
    with wrong_clock(monkeypatch, 7):
        tasks.plan()
    assert sent == [bell.PLAN_TASK] * 2
    passes: list[bool] = []
    monkeypatch.setattr(tasks, "plan_once", partial(passes.append, True))
    tasks.plan()
    assert passes == [True]


@pytest.mark.parametrize(
    ("asked", "database", "answered", "skew"),
    [(100, 101, 102, 0), (100, 40, 101, 60), (100, 161, 101, -60), (100, 100, 100, 0)],
)
def test_a_slow_answer_is_no_skew(asked, database, answered, skew):
    assert claims.clock_skew(asked, database, answered) == skew


@pytest.mark.slow
def test_behind_a_pooler_a_worker_holds_its_lease_past_it(postgres_django, pooled):
    """The work itself goes through PgBouncer in transaction mode."""
    server = urlsplit(postgres_django).port
    through = postgres_django.replace(f":{server}/", f":{pooled}/")
    with holder(through, TESSERA_DIRECT_DATABASE_URL=postgres_django) as process:
        assert not is_free()
        process.kill()
        until(is_free, seconds=AT_ONCE, what="the lease of the dead worker")


def test_a_worker_that_sees_only_the_pooler_says_so_and_does_nothing(
    postgres_django, pooled, settings
):
    server = urlsplit(postgres_django).port
    through = postgres_django.replace(f":{server}/", f":{pooled}/")
    settings.PLATFORM = replace(settings.PLATFORM, direct_database_url=through)
    with pytest.raises(PooledSessionError, match="TESSERA_DIRECT_DATABASE_URL"):
        run_exclusively(name="plan", work=lambda: pytest.fail("without a lease"))
    settings.PLATFORM = replace(settings.PLATFORM, direct_database_url=postgres_django)
    assert is_free()


def test_a_worker_goes_on_after_its_connection_for_leases_was_lost(postgres_django):
    """PostgreSQL was restarted, say: while the worker was idle, and while it held a lease."""
    assert is_free()
    _end_sessions()
    assert is_free()
    rounds = []

    def work() -> None:
        rounds.append(1)
        _end_sessions()

    assert run_exclusively(name="plan", work=work)
    assert is_free()
    assert rounds == [1]


def _end_sessions() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'tessera lease' AND datname = current_database()"
        )
