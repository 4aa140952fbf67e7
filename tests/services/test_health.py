"""A real agent on a simulated node: faults are injected by command, and the portal hears."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.services.stack import Stack, until

pytestmark = pytest.mark.services

NODE = "node-a"
WAIT = ["python3", "-c", "import time; time.sleep(600)"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with Stack(var=tmp_path_factory.mktemp("health"), nodes=(NODE,)) as running:
        yield running


def state(stack: Stack) -> str:
    return str(stack.var / "nodes" / NODE / "driver.json")


def inject(stack: Stack, *fault: str) -> None:
    stack.manage_program("agents", "simulate", "inject", *fault, "--path", state(stack))


def gpus(stack: Stack) -> dict[int, dict]:
    return {gpu["index"]: gpu for gpu in stack.call("GET", "/gpus")["results"]}


def where(stack: Stack) -> tuple[int, int]:
    """GPU index and GPU instance id of the one slice that stands."""
    node = json.loads(Path(state(stack)).read_text("utf-8"))
    ((index, instance),) = [(g["index"], i["id"]) for g in node["gpus"] for i in g["instances"]]
    return index, instance


@pytest.mark.slow
def test_a_contained_error_ends_the_job_on_its_slice_and_says_why(stack):
    job = stack.submit(WAIT)
    stack.until_status(job, "running")
    index, instance = where(stack)
    inject(stack, "xid", "94", "--gpu", str(index), "--instance", str(instance), "--compute", "0")
    seen = stack.until_status(job, "failed", "succeeded")
    assert seen["status"] == "failed"
    assert "gpu_error" in json.dumps(seen) and "XID 94" in json.dumps(seen)
    assert {gpu["health"] for gpu in gpus(stack).values()} == {"ok"}


@pytest.mark.slow
def test_a_gpu_off_the_bus_is_told_and_serves_again_after_a_reset_without_a_new_agent(stack):
    job = stack.submit(WAIT)
    stack.until_status(job, "running")
    index, _ = where(stack)
    inject(stack, "xid", "79", "--gpu", str(index))
    assert stack.until_status(job, "failed", "succeeded")["status"] == "failed"
    until(lambda: gpus(stack)[index]["health"] != "ok", what="the fault to be told")
    assert "off the bus" in gpus(stack)[index]["health_reason"]
    assert gpus(stack)[1 - index]["health"] == "ok"
    agent = stack.running[NODE].pid
    inject(stack, "clear", "--gpu", str(index))
    until(lambda: gpus(stack)[index]["health"] == "ok", what="the GPU to be healthy again")
    assert stack.running[NODE].pid == agent
    stack.until_status(stack.submit(WAIT), "running")
