"""Launchers with the libraries that they are for, over two nodes: PyTorch, JAX and Ray on CPUs.

On demand: `TORCH_PYTHON=<a python with torch, jax and ray> make test-slow`; JAX_PYTHON and
RAY_PYTHON name others.
"""

import json
import os
from pathlib import Path

import pytest

from tests.services.real_python import python_with
from tests.services.stack import ROOT, Stack, until

pytestmark = [pytest.mark.services, pytest.mark.on_demand, pytest.mark.slow]
EXAMPLES = ROOT / "docs" / "examples"
PROGRAMS = ROOT / "tests" / "support" / "loss_programs"


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with Stack(var=tmp_path_factory.mktemp("real")) as running:
        yield running


def run(stack, module, program, *arguments, ends="succeeded", **fields):
    """The results that a job prints, one of each process that has one, and its logs by rank."""
    usual = {"topology": "any", "memory": "2GiB", "cpu": "1", "env": {"JAX_PLATFORMS": "cpu"}}
    command = [python_with(module), str(EXAMPLES / program), *arguments]
    job = stack.submit(command, **usual | fields)
    seen = stack.until_status(job, "succeeded", "failed")

    def logs():
        ranks = range(fields["replicas"])
        return [stack.call("GET", f"/jobs/{job}/logs", params={"rank": rank}) for rank in ranks]

    assert seen["status"] == ends, (seen["reason"], logs())

    def results():
        lines = [line for log in logs() for line in log.splitlines() if line.startswith("{")]
        return [json.loads(line) for line in lines]

    return seen, (until(results, what="a result") if ends == "succeeded" else [])


def test_the_loss_of_one_two_and_four_ranks_of_torchrun_is_the_same(stack):
    losses = []
    for replicas, gpus in ((1, 1), (2, 1), (2, 2)):
        shape = {"replicas": replicas, "device": {"gpus": gpus}, "launcher": "torchrun"}
        (result,) = run(stack, "torch", "torch_loss.py", **shape)[1]
        assert result["world"] == replicas * gpus
        losses.append(result["losses"])
    alone = losses[0]
    assert alone[-1] < alone[0] / 2
    for other in losses[1:]:
        assert other == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize(
    ("launcher", "module", "env"),
    [
        ("accelerate", "accelerate", {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}),
        ("openmpi", "mpi4py", {"OMP_NUM_THREADS": "1"}),
    ],
)
def test_the_loss_of_a_program_is_the_same_on_one_two_and_four_ranks(stack, launcher, module, env):
    program = PROGRAMS / f"{module.removesuffix('4py')}_loss.py"
    # mpirun is beside its Python.
    path = f"{Path(python_with(module)).parent}:{os.environ['PATH']}"
    losses = []
    for replicas, gpus in ((1, 1), (2, 1), (2, 2)):
        shape = {"replicas": replicas, "device": {"gpus": gpus}, "launcher": launcher}
        (result,) = run(stack, module, program, env=env | {"PATH": path}, **shape)[1]
        assert result["world"] == replicas * gpus
        losses.append(result["loss"])
    assert losses == pytest.approx([losses[0]] * 3, abs=1e-5)


@pytest.mark.parametrize("replicas", [2, 4])
def test_the_processes_of_jax_agree_on_every_sum(stack, replicas):
    shape = {"replicas": replicas, "device": {"gpus": 1}, "launcher": "jax"}
    _, results = run(stack, "jax", "jax_sum.py", **shape)
    assert {each["rank"] for each in results} <= set(range(replicas))
    assert all(each["allreduce_ok"] and each["world"] == replicas for each in results)


RAY = {"replicas": 2, "device": {"gpus": 1}, "launcher": "ray", "grace": "20s"}
# Its sockets have to have short paths, which the folders of a test are not.
SHORT = {"RAY_TMPDIR": "/tmp"}


def test_the_driver_of_ray_uses_both_nodes_and_the_gang_ends_with_it(stack):
    _, (result,) = run(stack, "ray", "ray_sum.py", "--nodes", "2", env=SHORT, **RAY)
    assert result == {"event": "result", "nodes": 2, "used": 2, "sum_ok": True}


def test_the_failure_of_rays_driver_is_that_of_the_job(stack):
    seen, _ = run(stack, "ray", "ray_sum.py", "--fail", ends="failed", env=SHORT, **RAY)
    job = stack.call("GET", f"/jobs/{seen['id']}")
    assert "rank 0 ended with exit code 3" in json.dumps(job), job
