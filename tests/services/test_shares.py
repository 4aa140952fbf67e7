"""MPS shares through the whole product: portal, worker, a real agent, control daemons (the
simulated node's own program), and jobs that are told their share."""

from __future__ import annotations

import json

import pytest

from tests.services.stack import Stack, until

pytestmark = pytest.mark.services

NODE = "node-a"
NAMES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "TESSERA_BACKEND")
TELL = (
    "import json, os, time;"
    f"print(json.dumps({{n: os.environ.get(n) for n in {NAMES}}}), flush=True);"
    "time.sleep(600)"
)


@pytest.fixture
def stack(tmp_path_factory):
    with Stack(var=tmp_path_factory.mktemp("s"), nodes=(NODE,), gpus=1) as running:
        yield running


def a_share(threads, memory="8GiB"):
    return {"mps": {"threads": threads, "memory": memory}}


def job_environment(stack: Stack, job: str) -> dict[str, str]:
    """What a job printed of its environment."""
    text = until(lambda: stack.call("GET", f"/jobs/{job}/logs"), what="the job's first line")
    return json.loads(text.splitlines()[0])


def daemons(stack: Stack) -> list[str]:
    folder = stack.var / "nodes" / NODE / "agent" / "mps"
    return sorted(home.name for home in folder.glob("*")) if folder.exists() else []


@pytest.mark.slow
def test_shares_run_together_survive_the_agent_and_leave_nothing_behind(stack):
    small = stack.submit(["python3", "-c", TELL], device=a_share(25))
    large = stack.submit(["python3", "-c", TELL], device=a_share(50))
    for job in (small, large):
        stack.until_status(job, "running")
    first, second = job_environment(stack, small), job_environment(stack, large)
    assert first["CUDA_MPS_PIPE_DIRECTORY"] == second["CUDA_MPS_PIPE_DIRECTORY"]
    assert first["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert second["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    (daemon,) = daemons(stack)

    third = stack.submit(["python3", "-c", TELL], device=a_share(50))
    whole = stack.submit(["python3", "-c", TELL], device={"gpus": 1})
    for job in (third, whole):
        until(lambda job=job: stack.job(job)["reason"], what="a reason to wait")
        assert stack.job(job)["status"] == "queued"

    stack.kill(NODE)
    stack.start_agent(NODE)
    stack.call("POST", f"/jobs/{large}/cancel")
    stack.until_status(large, "cancelled")
    stack.until_status(third, "running")
    assert daemons(stack) == [daemon], "the one that was there"

    for job in (small, third):
        stack.call("POST", f"/jobs/{job}/cancel")
    stack.until_status(whole, "running")
    assert daemons(stack) == []


@pytest.mark.slow
def test_a_gang_of_shares_meets_by_gloo(stack):
    job = stack.submit(["python3", "-c", TELL], device=a_share(30), replicas=3)
    stack.until_status(job, "running")
    assert job_environment(stack, job)["TESSERA_BACKEND"] == "gloo"
