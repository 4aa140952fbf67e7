"""The profiler's file in real PyTorch: a training alone, and one of two ranks by gloo.

On demand: `TORCH_PYTHON=<a python with torch> make test-slow`.
"""

import gzip
import json
import os
import subprocess

import pytest

from agents.profiler.hook import FOLDER, RECORDED_STEPS, SUMMARY_FILE, TRACE_FILE
from agents.profiler.start import HOOK_FILE, HOOK_TEXT
from portal.files.time_profiles import TimeCategory, read_profile
from tests.services.real_python import python_with

pytestmark = [pytest.mark.services, pytest.mark.on_demand, pytest.mark.slow]
PROGRAM = """
import os, sys, torch
steps, world = int(sys.argv[1]), int(os.environ.get("WORLD_SIZE", 1))
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
if world > 1:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(32 * steps, 256))
for (rows,) in torch.utils.data.DataLoader(data, batch_size=32):
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    optimizer.step()
print("done")
if world > 1:
    torch.distributed.destroy_process_group()
"""


def train(tmp_path, steps, *launcher):
    """What it wrote into its output, and what it said."""
    for name in ("launcher", "output"):
        (tmp_path / name).mkdir()
    (tmp_path / "launcher" / HOOK_FILE).write_text(HOOK_TEXT, "utf-8")
    (tmp_path / "train.py").write_text(PROGRAM)
    own = {
        "PYTHONPATH": str(tmp_path / "launcher"),
        "TESSERA_OUTPUT_DIR": str(tmp_path / "output"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [python_with("torch"), *launcher, str(tmp_path / "train.py"), str(steps)],
        env=os.environ | own,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return tmp_path / "output" / FOLDER, done


def test_a_training_alone_has_computing_and_a_trace(tmp_path):
    folder, done = train(tmp_path, 20)
    assert done.stdout == "done\n"
    assert "tessera profiler: profiled 10 steps" in done.stderr
    profile = read_profile((folder / SUMMARY_FILE).read_bytes())
    assert (profile.steps, profile.rank, profile.world) == (RECORDED_STEPS, 0, 1)
    assert not profile.by_device
    assert profile.times_us[TimeCategory.COMPUTE] > 0
    assert profile.communication_total_us == 0
    # A product forward and one or two backward in each layer, each step.
    calls = {operator.name: operator.calls for operator in profile.operators}
    assert calls["aten::addmm"] == 2 * RECORDED_STEPS
    with gzip.open(folder / TRACE_FILE) as trace:
        assert json.load(trace)["traceEvents"]


def test_two_ranks_communicate_and_rank_0_says_how_long(tmp_path):
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    folder, done = train(tmp_path, 20, *torchrun)
    assert done.stdout.count("done") == 2
    profile = read_profile((folder / SUMMARY_FILE).read_bytes())
    assert (profile.steps, profile.rank, profile.world) == (RECORDED_STEPS, 0, 2)
    assert profile.communication_total_us > 0
    # Once for each step: all parameters are in one bucket.
    calls = {operator.name: operator.calls for operator in profile.operators}
    assert calls["gloo:all_reduce"] == RECORDED_STEPS


def test_a_training_that_ends_early_says_so_or_has_the_steps_until_then(tmp_path):
    folder, done = train(tmp_path, 4)
    assert not folder.exists()
    assert "not profiled: it ended after 4 steps" in done.stderr
