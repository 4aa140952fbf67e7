"""The advisor's bytes are those that real PyTorch keeps on each rank, started by torchrun.

On demand: `TORCH_PYTHON=<a python with torch> make test-slow`.
"""

import json
import os
import subprocess

import pytest

from scheduler.advisor.activation_memory import stage_bytes
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.state_memory import FP32_ADAM
from scheduler.advisor.transformer import Shape
from tests.services.real_python import python_with
from tests.services.stack import ROOT

pytestmark = [pytest.mark.services, pytest.mark.on_demand, pytest.mark.slow]
PROGRAM = str(ROOT / "tests" / "services" / "torch_bytes.py")
# That of the program: layers alone, without tables.
SHAPE = Shape(layers=4, hidden=512, heads=8, sequence=128, positions=1)
BATCH = 2
STAGES = {"ddp": 0, "zero1": 1, "fsdp2": 3}


def expected(strategy: str, world: int) -> dict[str, float]:
    """In 32 bits. Tensor parallelism divides matrices; norms and some biases stay whole."""
    names = ("states", "gradients", "parameters")
    divided = names if strategy == "tp" else names[: STAGES[strategy]]
    share = {name: 1 / world if name in divided else 1.0 for name in names}
    sizes = {
        "parameters": FP32_ADAM.weights,
        "gradients": FP32_ADAM.gradients,
        "states": FP32_ADAM.optimizer,
    }
    return {name: SHAPE.parameters * sizes[name] * share[name] for name in share}


@pytest.mark.parametrize("world", [1, 2, 4])
def test_every_rank_keeps_the_bytes_of_the_formulas(world):
    torchrun = [python_with("torch"), "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, f"--nproc-per-node={world}", PROGRAM],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
    assert len(lines) == 4 * world
    for line in lines:
        compare(line, world)


def compare(line: dict, world: int) -> None:
    wanted = expected(line["strategy"], world)
    measured = {name: line[name] for name in wanted}
    assert measured == pytest.approx(wanted, rel=0.005), line
    # Korthikanti counts 16 bits a number. Under tensor parallelism without its sequence variant,
    # only what lies between split matrices is divided.
    t = world if line["strategy"] == "tp" else 1
    parallelism = Parallelism(world, t, 1, BATCH * world // t, BATCH)
    activations = 2 * stage_bytes(SHAPE, parallelism, flash_attention=True)
    assert line["activations"] == pytest.approx(activations, rel=0.05), line
