"""On PostgreSQL a lease ends with the connection of its holder: however the holder dies, the next
worker has it at once, and no clock is asked."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.leases.models import TaskLease
from portal.leases.services import run_exclusively
from tests.services.stack import ROOT, until

pytestmark = pytest.mark.services

# Far below the minute that a lease by the clock would last.
AT_ONCE = 20


@contextlib.contextmanager
def holder(url: str, limit: float = 0) -> Iterator[subprocess.Popen]:
    """A worker that holds the lease `plan`, in the middle of a query."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.services.lease_holder", "plan", str(limit)],
        cwd=ROOT,
        env=os.environ | {"TESSERA_DATABASE_URL": url, "PYTHONPATH": str(ROOT)},
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


def is_free() -> bool:
    return run_exclusively(name="plan", work=lambda: None)


def test_a_holder_that_is_killed_in_a_query_leaves_the_lease_free(postgres_django):
    with holder(postgres_django) as process:
        assert not is_free()
        process.kill()
        until(is_free, seconds=AT_ONCE, what="the lease of the dead worker")


def test_a_time_limit_within_a_query_leaves_the_lease_free(postgres_django):
    """The connection of the work is of no use any more: a query is still under way on it."""
    with holder(postgres_django, limit=1) as process:
        assert process.stdout.readline() == "limit\n"
        assert is_free()
        assert process.poll() is None, "the worker lives on"


@pytest.mark.parametrize("minutes", [-10, 10])
def test_clocks_that_differ_by_minutes_make_no_two_holders(postgres_django, monkeypatch, minutes):
    with holder(postgres_django):
        now = timezone.now
        monkeypatch.setattr(timezone, "now", lambda: now() + timedelta(minutes=minutes))
        assert not is_free()
        assert TaskLease.objects.get().rung, "the holder does one more round"
