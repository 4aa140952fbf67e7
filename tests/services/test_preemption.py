"""A running job makes way for another, through the whole product: its node stops it with its grace,
it saves what it has, queues again, and goes on in a higher attempt."""

import json

import pytest

from tests.services.stack import Stack, until

pytestmark = pytest.mark.services

# Saves what it reached when it is told to stop, and ends well once it finds that.
PROGRAM = """
import os, pathlib, signal, sys, time
home = pathlib.Path({home!r})
attempt = os.environ["TESSERA_ATTEMPT"]

def save(*_):
    (home / "checkpoint").write_text(attempt)
    sys.exit(0)

if (home / "checkpoint").exists():
    print("went on from attempt", (home / "checkpoint").read_text(), "in", attempt, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
(home / "started").touch()
while True:
    time.sleep(0.05)
"""
WHOLE = {"device": {"gpus": 1}}


@pytest.fixture
def stack(tmp_path, postgres_server, redis_server):
    url = postgres_server.create_database(migrated=True)
    only = {"nodes": ("node-a",), "gpus": 1}
    with Stack(
        var=tmp_path / "var", database_url=url, redis_url=redis_server.url(), **only
    ) as running:
        yield running


@pytest.mark.slow
def test_a_victim_saves_its_work_queues_again_and_goes_on_in_a_higher_attempt(stack, tmp_path):
    command = ["python3", "-c", PROGRAM.format(home=str(tmp_path))]
    victim = stack.submit(command, priority="low", **WHOLE)
    until(lambda: (tmp_path / "started").exists(), what="the victim to start")
    stack.until_status(victim, "running")
    first = ["python3", "-c", "print('first')"]
    other = stack.submit(first, priority="high", **WHOLE)

    assert json.loads(stack.manage_program("tests.services.preempt", victim, other))
    stack.until_status(other, "succeeded")
    seen = stack.until_status(victim, "succeeded", "failed", "cancelled", "timed_out")
    assert seen["status"] == "succeeded", json.dumps(seen, indent=1)
    assert [attempt["number"] for attempt in seen["attempts"]] == [1, 2]
    assert [attempt["outcome"] for attempt in seen["attempts"]] == ["preempted", "succeeded"]
    ends = [attempt["created_at"] for attempt in seen["attempts"]]
    assert ends[0] < stack.job(other)["started_at"] < ends[1], "the other one ran in between"
    # The last lines of a log may arrive after its job has ended.
    log = until(lambda: stack.call("GET", f"/jobs/{victim}/logs").strip(), what="its log")
    assert log.startswith("went on from attempt"), log
    codes = [event["code"] for event in stack.call("GET", f"/jobs/{victim}/events")["results"]]
    assert codes.count("preempted") == 2, "that it stops, and that it is queued again"
