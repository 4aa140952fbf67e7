"""What the profiler's file does in a program, and how it divides the time of a trace."""

import subprocess
import sys
from dataclasses import replace

import pytest

from agents.contract.documents import Rendezvous
from agents.contract.profilers import Profiler
from agents.launchers.launch import launch_files, replica_environment
from agents.profiler.hook import MAX_OPERATORS, summary_of
from agents.profiler.start import HOOK_FILE, HOOK_TEXT, image_paths
from agents.workspace.folders import IN_CONTAINER
from tests.unit.agents.documents import a_replica

MEETING = Rendezvous("10.0.0.1", 29_500)
# Of PyTorch: only what the file asks for before anything is recorded.
OPTIMIZER = """
hooks = []
def register_optimizer_step_post_hook(hook):
    hooks.append(hook)
    class Handle:
        remove = staticmethod(hooks.clear)
    return Handle
"""
STEPS = "import torch.optim.optimizer as o\nfor _ in range(9): [h(o, (), {}) for h in o.hooks]\n"


def event(category, name, start, us, **fields):
    """As Kineto writes it."""
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": us, **fields}


def kernel(name, start, us, gpu=0, stream=7):
    return event("kernel", name, start, us, pid=gpu, tid=stream, args={"device": gpu})


def parts(summary):
    names = ("compute_us", "communication_us", "copy_us", "idle_us", "communication_total_us")
    return [summary[name] for name in names]


def test_each_moment_of_a_gpu_counts_once():
    events = [
        kernel("gemm", 0, 100),
        kernel("gemm", 100, 100),
        # A half of it is hidden by the second product.
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 150, 100, stream=20),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 240, 30, args={"device": 0}),
        event("gpu_memset", "Memset (Device)", 300, 10, args={"device": 0}),
        # What the CPU does is not the time of the GPU.
        event("cpu_op", "aten::mm", 0, 400, pid=1, tid=1),
        event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 310, 60, pid=1, tid=1),
        {"ph": "M", "name": "process_name"},
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "ts": 5},
    ]
    summary = summary_of(events, 400)
    assert summary["by_device"]
    assert parts(summary) == [200, 50, 30, 120, 100]
    assert summary["window_us"] == sum(parts(summary)[:4]) == 400
    assert summary["loading_us"] == 60
    first = summary["operators"][0]
    assert first == {"name": "gemm", "category": "compute", "calls": 2, "us": 200}


def test_of_several_gpus_the_busiest_one_counts():
    events = [kernel("a", 0, 10), kernel("b", 0, 90, gpu=1), kernel("b", 50, 50, gpu=1)]
    assert parts(summary_of(events, 200)) == [100, 0, 0, 100, 0]


def test_without_a_gpu_the_innermost_operator_of_each_thread_counts():
    events = [
        event("cpu_op", "aten::linear", 0, 100, pid=1, tid=1),
        event("cpu_op", "aten::addmm", 10, 60, pid=1, tid=1),
        event("cpu_op", "aten::copy_", 70, 20, pid=1, tid=1),
        # In a thread of its own, hidden but for its end.
        event("user_annotation", "gloo:all_reduce", 50, 100, pid=1, tid=2),
        event("user_annotation", "Optimizer.step#SGD.step", 0, 300, pid=1, tid=1),
    ]
    summary = summary_of(events, 300)
    assert not summary["by_device"]
    # 0 to 70 and 90 to 100 computes; 70 to 90 and 100 to 150 is left for the reduction.
    assert parts(summary) == [80, 70, 0, 150, 100]
    calls = {operator["name"]: operator["calls"] for operator in summary["operators"]}
    assert calls == {"aten::linear": 1, "aten::addmm": 1, "aten::copy_": 1, "gloo:all_reduce": 1}


def test_a_trace_without_events_is_idle_and_a_long_one_names_the_longest():
    assert parts(summary_of([], 50)) == [0, 0, 0, 50, 0]
    events = [kernel(f"k{n}" + "x" * 500, 10 * n, 1 + n % 9) for n in range(99)]
    found = summary_of(events, 10)["operators"]
    assert len(found) == MAX_OPERATORS
    assert all(len(operator["name"]) <= 160 for operator in found)


def run(folder, program, **env):
    """The program in a Python that finds the file as in a replica."""
    launcher = folder / "launcher"
    launcher.mkdir(exist_ok=True)
    (launcher / HOOK_FILE).write_text(HOOK_TEXT, "utf-8")
    output = folder / "output"
    output.mkdir(exist_ok=True)
    env = {"PYTHONPATH": f"{launcher}:{folder}", "TESSERA_OUTPUT_DIR": str(output)} | env
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sitecustomize\n{program}"],
        env=env,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


def a_torch(folder, optimizer, init="class cuda:\n    is_initialized = staticmethod(bool)\n"):
    optim = folder / "torch" / "optim"
    optim.mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(init)
    (optim / "__init__.py").write_text("from . import optimizer\n")
    (optim / "optimizer.py").write_text(optimizer)


def test_a_program_without_pytorch_never_notices_and_other_paths_and_modules_stay(tmp_path):
    image = tmp_path / "image"
    image.mkdir()
    (image / "of_image.py").write_text("")
    (tmp_path / "sitecustomize.py").write_text("print('of the user')\n")
    program = "import sys, of_image\nprint(sys.modules['sitecustomize'].__file__)\n"
    done = run(tmp_path, program, TESSERA_IMAGE_PYTHONPATH=str(image))
    assert done.stdout.splitlines() == ["of the user", str(tmp_path / "sitecustomize.py")]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        ("", "this PyTorch tells nobody of its steps: 2.0 or newer does"),
        # It has no profiler at all.
        (OPTIMIZER, "not profiled: "),
        (
            "hooks = []\ndef register_optimizer_step_post_hook(hook): 1 / 0\n",
            "not profiled: ZeroDiv",
        ),
    ],
)
def test_what_goes_wrong_is_one_line_and_the_program_goes_on(tmp_path, optimizer, said):
    a_torch(tmp_path, optimizer)
    steps = STEPS if optimizer else "import torch.optim\n"
    done = run(tmp_path, f"{steps}print('done')\n")
    assert done.stdout == "done\n"
    assert done.stderr.startswith(f"tessera profiler: {said}")
    assert len(done.stderr.splitlines()) == 1


def test_other_ranks_are_left_alone(tmp_path):
    a_torch(tmp_path, OPTIMIZER)
    done = run(tmp_path, f"{STEPS}print(o.hooks)\n", RANK="1")
    assert (done.stdout, done.stderr) == ("[]\n", "")
    assert not [*(tmp_path / "output").iterdir()]


def test_a_replica_gets_the_file_and_the_variables_that_lead_there():
    plain = a_replica(env={"PYTHONPATH": "/mine"})
    profiled = replace(plain, profiler=Profiler.PYTORCH)
    assert HOOK_FILE not in launch_files(plain, MEETING, IN_CONTAINER)
    assert launch_files(profiled, MEETING, IN_CONTAINER)[HOOK_FILE] == HOOK_TEXT
    before, after = (
        replica_environment(each, (), MEETING, IN_CONTAINER) for each in (plain, profiled)
    )
    assert before["PYTHONPATH"] == "/mine"
    assert after["PYTHONPATH"] == "/launcher:/mine"
    assert after["TESSERA_LAUNCHER_DIR"] == "/launcher"
    assert after.keys() - before.keys() == {"TESSERA_LAUNCHER_DIR"}


def test_the_path_of_an_image_is_kept_unless_the_request_sets_its_own():
    of_image = {"PYTHONPATH": "/opt/lib"}
    profiled = a_replica(profiler=Profiler.PYTORCH, env={})
    assert image_paths(profiled, of_image) == {"TESSERA_IMAGE_PYTHONPATH": "/opt/lib"}
    assert image_paths(profiled, {}) == {}
    assert image_paths(a_replica(env={}), of_image) == {}
    assert image_paths(replace(profiled, env={"PYTHONPATH": "/mine"}), of_image) == {}
