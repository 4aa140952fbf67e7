"""The starts that launcher deepspeed composes, with the real DeepSpeed on CPUs.

Each replica is a process on this machine, started with the command and the files of its container:
the simulated nodes run plain processes, where this launcher is refused, because DeepSpeed chooses
devices by number. On demand: `DEEPSPEED_PYTHON=<a python with torch and deepspeed> make test-slow`.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from agents.contract.documents import Rendezvous
from agents.contract.launcher_names import LauncherName
from agents.launchers.preview import assumed_devices, gang_starts
from agents.launchers.request_file import requested_replica
from tests.environment.programs import free_port
from tests.services.real_python import python_with

pytestmark = [pytest.mark.services, pytest.mark.on_demand, pytest.mark.slow]
PROGRAM = Path(__file__).parents[1] / "support" / "loss_programs" / "deepspeed_loss.py"
# It compiles an operation at its first start on a machine; a busy one needs minutes for that.
END_SECONDS = 600


def test_the_loss_of_deepspeed_is_the_same_on_one_two_and_four_ranks(tmp_path):
    losses = []
    for replicas, gpus in ((1, 1), (2, 1), (2, 2)):
        result = run_gang(tmp_path, replicas, gpus)
        assert result["world"] == replicas * gpus
        losses.append(result["loss"])
    assert losses == pytest.approx([losses[0]] * 3, abs=1e-5)


def run_gang(root, replicas, gpus):
    """What rank 0 printed at the end of a gang of this shape."""
    python = python_with("deepspeed")
    request = {"command": [python, str(PROGRAM)], "replicas": replicas, "device": {"gpus": gpus}}
    replica = requested_replica(request, LauncherName.DEEPSPEED)
    rendezvous = Rendezvous("127.0.0.1", free_port(), ("127.0.0.1",) * replicas)
    gang = gang_starts(replica, rendezvous, assumed_devices(replica))
    processes = [start_replica(root, f"{replicas}-{gpus}-{each.rank}", each) for each in gang]
    try:
        outputs = [process.communicate(timeout=END_SECONDS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * replicas, outputs
    results = [line for line in outputs[0].splitlines() if line.startswith('{"event": "result"')]
    return json.loads(results[0])


def start_replica(root, name, start):
    """One process, in a folder of its own; the compiled operations are shared."""
    folder = root / name
    folder.mkdir()
    command = list(start.command)
    for path, text in start.files.items():
        own = folder / Path(path).name
        own.write_text(text)
        command = [word.replace(path, str(own)) for word in command]
    machine = {
        "PATH": f"{Path(command[0]).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "TMPDIR": str(root),
        "TORCH_EXTENSIONS_DIR": str(root / "operations"),
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        command,
        env={**start.environment, **machine},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
