"""A gang of PyTorch that shrinks when its node is lost, and grows when one is free: its loss is
that of an undisturbed run.

On demand: `TORCH_PYTHON=<a python with torch> make test-slow`.
"""

import json

import pytest

from tests.services.real_python import python_with
from tests.services.stack import ROOT, Stack, until

pytestmark = [pytest.mark.services, pytest.mark.on_demand, pytest.mark.slow]
PROGRAM = str(ROOT / "docs" / "examples" / "torch_loss.py")
STEPS = 80
# A replica takes a node, so that the ranks are two or four.
GANG = {
    "launcher": "torchrun",
    "device": {"gpus": 2},
    "replicas": {"min": 1, "max": 2},
    "topology": "any",
    "memory": "2GiB",
    "cpu": "1",
    "time_limit": "3h",
    "env": {"OMP_NUM_THREADS": "1"},
    "retries": {"infrastructure": 1},
}


@pytest.fixture
def stack(tmp_path):
    with Stack(var=tmp_path / "var", agent_options=("--stop-jobs-on-exit",)) as running:
        running.seeded |= json.loads(running.manage_program("tests.services.make_admin"))
        yield running


def result(stack: Stack, job: str) -> dict:
    def printed():
        log = stack.call("GET", f"/jobs/{job}/logs", params={"rank": 0})
        return next((json.loads(line) for line in log.splitlines() if line[:1] == "{"), None)

    seen = stack.until_status(job, "succeeded", "failed")
    assert seen["status"] == "succeeded", seen
    return until(printed, what="a result")


def test_a_gang_shrinks_and_grows_and_comes_to_the_same_loss(stack):
    command = [python_with("torch"), PROGRAM, "--steps", str(STEPS)]
    alone = stack.submit(command, **GANG | {"replicas": 1})
    undisturbed = result(stack, alone)
    job = stack.submit([*command, "--pause", "0.5"], **GANG)

    def saved(attempt):
        found = stack.call("GET", f"/jobs/{job}/trees")["results"]
        mine = [t for t in found if (t["kind"], t["attempt"]) == ("checkpoint", attempt)]
        return mine or None

    def attempts(number):
        found = stack.job(job)
        is_there = len(found["attempts"]) == number and found["status"] == "running"
        return found["attempts"] if is_there else None

    until(lambda: saved(1), what="a checkpoint")
    stack.call("POST", "/nodes/node-b/cordon", json={"reason": "it is lost"})
    stack.stop("node-b")
    stack.start_agent("node-b")
    assert until(lambda: attempts(2), what="a smaller gang")[1]["placed_replicas"] == 1
    until(lambda: saved(2), what="a checkpoint of the smaller gang")
    stack.call("POST", "/nodes/node-b/uncordon")
    stack.manage_program("tests.services.age_job", job)
    grown = until(lambda: attempts(3), what="a larger gang")
    assert [attempt["placed_replicas"] for attempt in grown] == [2, 1, 2]
    assert grown[1]["outcome"] == "resized"

    found = result(stack, job)
    assert found["world"] == 4 and found["began"] > 0
    assert found["losses"] == pytest.approx(undisturbed["losses"], abs=1e-5)
