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


# Stands in for nccl-tests, which need GPUs: an MPI program that counts its processes.
COUNTING = """#!{python}
import json
from mpi4py import MPI
world = MPI.COMM_WORLD.allreduce(1)
if MPI.COMM_WORLD.Get_rank() == 0:
    print(json.dumps({{"event": "result", "world": world}}), flush=True)
"""


def test_each_pair_of_a_round_has_an_mpirun_of_its_own_at_the_same_time(stack, tmp_path):
    python = python_with("mpi4py")
    program = tmp_path / "all_reduce_perf"
    program.write_text(COUNTING.format(python=python))
    program.chmod(0o755)
    job = stack.submit(
        ["all_reduce_pairs", "0:1,2:3/1:2,0:3", "-b", "8M"],
        launcher="nccl-tests",
        replicas=4,
        device={"gpus": 1},
        containers="per-replica",
        topology="any",
        memory="2GiB",
        cpu="1",
        env={"PATH": f"{tmp_path}:{Path(python).parent}:{os.environ['PATH']}"},
    )
    _, found = finished(stack, job, ranks=1)
    assert found == [{"event": "result", "world": 2}] * 4
    log = stack.call("GET", f"/jobs/{job}/logs", params={"rank": 0})
    assert [line.split()[-1] for line in log.splitlines() if line.startswith("# tessera")] == [
        *("0:1", "2:3", "1:2", "0:3"),
    ]


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
            # What only torchrun's own children have: its agent may have a rank, too.
            is_worker = any(each.startswith("TORCHELASTIC_RUN_ID=") for each in variables)
            if not (is_own and is_worker and f"RANK={rank}" in variables):
                continue
            if any(program in word for word in words):
                return int(process.name)
    raise AssertionError(f"no process of rank {rank}")


# As docs/launchers.md has it.
C10D = """exec "$0" -m torch.distributed.run --nnodes 1:$NNODES --nproc-per-node 1 \\
    --max-restarts 3 --rdzv-backend c10d --rdzv-endpoint $MASTER_ADDR:$MASTER_PORT \\
    --rdzv-id $TESSERA_JOB-$TESSERA_ATTEMPT "$@"
"""


def test_torchruns_c10d_meets_over_both_nodes_and_starts_a_killed_rank_again_in_place(stack):
    """Under launcher none, in a gang of a range of sizes: no other attempt is needed."""
    shape = {"replicas": 2, "device": {"gpus": 2}}
    (unhurt,) = run(stack, "torch", "torch_loss.py", launcher="torchrun", processes=1, **shape)[1]
    program = (str(EXAMPLES / "torch_loss.py"), "--steps", "20", "--pause", "1")
    job = stack.submit(
        ["sh", "-c", C10D, python_with("torch"), *program],
        launcher="none",
        topology="any",
        memory="2GiB",
        cpu="1",
        env={"OMP_NUM_THREADS": "1"},
        retries={"infrastructure": 1},
        **shape | {"replicas": {"min": 1, "max": 2}},
    )
    saved = until(lambda: list(stack.var.glob("**/saved.json")), what="a checkpoint")
    assert len(saved) == 1
    os.kill(worker(stack, "torch_loss.py", rank="1"), signal.SIGKILL)
    seen, (result,) = finished(stack, job, ranks=2)
    assert len(seen["attempts"]) == 1
    assert result["world"] == 2 and result["began"] > 0
    assert result["losses"] == pytest.approx(unhurt["losses"], abs=1e-5)


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
