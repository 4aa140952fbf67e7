"""Metrics of jobs as real processes: live while the job runs, whole after its end, once after the
agent was killed."""

import sys

import pytest

from tests.services.stack import Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow]
REPORT = """
import json, os, sys, time
for step in range(int(sys.argv[1])):
    with open(os.environ["TESSERA_METRICS_FILE"], "a") as file:
        print(json.dumps({"step": step, "loss": 1 / (1 + step)}), file=file)
    time.sleep(float(sys.argv[2]))
"""


PRINTED = """
import json
print("epoch 1")
for step in range(3):
    print("tessera-metric", json.dumps({"step": step, "loss": 1 / (1 + step)}))
print("tessera-metric and no JSON")
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with Stack(var=tmp_path_factory.mktemp("metrics"), nodes=("node-a",)) as running:
        yield running


def submit(stack: Stack, steps: int, seconds: float) -> str:
    return stack.submit([sys.executable, "-c", REPORT, str(steps), str(seconds)])


def loss(stack: Stack, job: str) -> dict | None:
    found = stack.call("GET", f"/jobs/{job}/metrics")["results"]
    return found[0] if found else None


def test_a_job_that_ends_at_once_has_all_that_it_reported(stack):
    job = submit(stack, 3, 0)
    assert stack.until_status(job, "succeeded", "failed")["status"] == "succeeded"
    row = until(lambda: loss(stack, job), what="its metrics")
    assert row["points"] == [[0, 1], [1, 0.5], [2, 1 / 3]]


def test_what_a_job_prints_with_the_prefix_is_a_metric(stack):
    job = stack.submit([sys.executable, "-c", PRINTED])
    assert stack.until_status(job, "succeeded", "failed")["status"] == "succeeded"
    row = until(lambda: loss(stack, job), what="its metrics")
    assert row["points"] == [[0, 1], [1, 0.5], [2, 1 / 3]]
    assert stack.call("GET", f"/jobs/{job}/metrics")["skipped"] == {"not_json": 1}


def test_points_appear_while_it_runs_and_count_once_after_the_agent_was_killed(stack):
    job = submit(stack, 1_000, 0.05)
    until(lambda: (loss(stack, job) or {}).get("count", 0) > 5, what="the first points")
    assert stack.job(job)["status"] == "running"
    stack.kill("node-a")
    stack.start_agent("node-a")
    before = loss(stack, job)["count"]
    row = until(
        lambda: (now := loss(stack, job))["count"] > before + 20 and now, what="more points"
    )
    steps = [step for step, _ in row["points"]]
    assert row["count"] == row["last_step"] + 1
    assert steps == sorted(set(steps))
    stack.call("POST", f"/jobs/{job}/cancel")
    stack.until_status(job, "cancelled")
