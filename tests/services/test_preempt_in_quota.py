"""A project at its quota, through the whole product: its urgent job starts once its owner's own
preemptible work has had its grace period. Another GPU is free all the time."""

import json
from datetime import datetime

import pytest

from tests.services.stack import Stack, until

pytestmark = pytest.mark.services

WHOLE = {"device": {"gpus": 1}}
GRACE_SECONDS = 4
# From the submit to the start, beyond the grace period: the project's own aim.
AIM_SECONDS = 5
# It does not end when it is told to: its grace period is over before it does.
STUBBORN = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path({path!r}).touch()
time.sleep(600)
"""


@pytest.fixture
def stack(tmp_path, postgres_server, redis_server):
    url = postgres_server.create_database(migrated=True)
    only = {"nodes": ("node-a",), "gpus": 2}
    with Stack(
        var=tmp_path / "var", database_url=url, redis_url=redis_server.url(), **only
    ) as running:
        yield running


def at(text):
    return datetime.fromisoformat(text).timestamp()


def waited_seconds(job: dict) -> float:
    return at(job["started_at"]) - at(job["queued_at"])


@pytest.mark.slow
def test_urgent_work_in_a_full_quota_starts_within_the_grace_of_own_work_and_5_seconds(
    stack, tmp_path
):
    assert json.loads(stack.manage_program("tests.services.set_quota", "vision", "1"))
    started = tmp_path / "started"
    command = ["python3", "-c", STUBBORN.format(path=str(started))]
    victim = stack.submit(command, priority="low", grace=f"{GRACE_SECONDS}s", **WHOLE)
    until(started.exists, what="the victim to start")
    plain = waited_seconds(stack.until_status(victim, "running"))

    urgent = stack.submit(["python3", "-c", "print('urgent')"], priority="high", **WHOLE)
    seen = stack.until_status(urgent, "succeeded", "failed")
    assert seen["status"] == "succeeded", json.dumps(seen, indent=1)
    # On a busy machine a plain start takes seconds: the aim is held against one of the same run.
    waited = waited_seconds(seen)
    most = GRACE_SECONDS + max(AIM_SECONDS, 3 * plain)
    assert waited <= most, f"it waited {waited:.1f} s, the one before it {plain:.1f} s"

    first = stack.job(victim)["attempts"][0]
    assert first["outcome"] == "preempted"
    devices = first["replicas"][0]["devices"]
    charged = min(at(attempt["created_at"]) for attempt in seen["attempts"])
    assert charged >= max(at(device["released_at"]) for device in devices), (
        "the quota was given back before it was charged again"
    )
    stack.until_status(victim, "running")
    assert len(stack.job(victim)["attempts"]) == 2, "it goes on once the urgent job has ended"
