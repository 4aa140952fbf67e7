"""Launchers with the libraries that they are for, over two nodes: PyTorch, JAX and Ray on CPUs.

On demand: `TORCH_PYTHON=<a python with torch, jax and ray> make test-slow`; JAX_PYTHON and
RAY_PYTHON name others.
"""

import contextlib
import json
import os
import signal
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


def submit(stack, module, program, *arguments, **fields):
    usual = {"topology": "any", "memory": "2GiB", "cpu": "1", "env": {"JAX_PLATFORMS": "cpu"}}
    # Each rank has a log of its own, also where two come to one node.
    usual["containers"] = "per-replica"
    command = [python_with(module), str(EXAMPLES / program), *arguments]
    return stack.submit(command, **usual | fields)


def run(stack, *command, ends="succeeded", **fields):
    job = submit(stack, *command, **fields)
    return finished(stack, job, ranks=fields["replicas"], ends=ends)


def finished(stack, job, ranks, ends="succeeded"):
    """The job at its end, and the results that its processes printed."""
    seen = stack.until_status(job, "succeeded", "failed")

    def logs():
        each = ({"params": {"rank": rank}} for rank in range(ranks))
        return [stack.call("GET", f"/jobs/{job}/logs", **rank) for rank in each]

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
        ("openmpi", "mpi4py", {"OMP_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}),
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


def test_after_a_rank_was_killed_the_gang_goes_on_at_its_checkpoint_to_the_same_loss(stack):
    shape = {"replicas": 2, "device": {"gpus": 1}, "launcher": "torchrun"}
    (unhurt,) = run(stack, "torch", "torch_loss.py", "--steps", "40", **shape)[1]
    slowly = ("--steps", "40", "--pause", "1")
    job = submit(stack, "torch", "torch_loss.py", *slowly, retries={"user": 1}, **shape)
    until(lambda: stack.call("GET", f"/jobs/{job}/trees")["results"], what="a checkpoint")
    os.kill(worker(stack, "torch_loss.py", rank="1"), signal.SIGKILL)
    seen, (result,) = finished(stack, job, ranks=2)
    assert len(seen["attempts"]) == 2 and result["began"] > 0
    assert result["losses"] == pytest.approx(unhurt["losses"], abs=1e-5)


def worker(stack, program, rank):
    """The pid of the process of this rank."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_text().split("\0")
            variables = (process / "environ").read_text().split("\0")
            is_own = str(stack.var.resolve()) in str((process / "cwd").readlink())
            if is_own and f"RANK={rank}" in variables and any(program in word for word in words):
                return int(process.name)
    raise AssertionError(f"no process of rank {rank}")


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
