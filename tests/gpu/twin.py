"""The simulated twin of a node, read in a process of its own: this one keeps the real driver.

`python -m tests.gpu.twin STATE_FILE` makes there the MIG instances that standard input names, then
reads the node as the real one is read, and prints the reading.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from agents.nvml.errors import NvmlFailure
from agents.nvml.session import Nvml
from agents.simdriver.install import install
from agents.simdriver.layouts import FLAT, LAYOUTS, Layout
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from tests.gpu import guard
from tests.gpu.reading import read

ROOT = Path(__file__).parents[2]
SECONDS = 120


def twin_of(reading: dict[str, Any], board: str) -> dict[str, Any]:
    """The reading of a simulated node that has as many GPUs of `board` as the one that was read, in
    the same MIG modes and with the same instances, asked by the same kind of user."""
    gpus = [gpu for gpu in reading["gpus"] if gpu["board"] == board]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "driver.json"
        node = new_node(
            board=board, gpus=len(gpus), seed=1, latency=False, layout=layout_of(board, len(gpus))
        )
        for simulated, real in zip(node.gpus, gpus, strict=True):
            simulated.mig_current = int(bool(real["mig_current"]))
            simulated.mig_pending = int(bool(real["mig_pending"]))
        Store(path).create(node)
        return _read(path, [gpu["instances"] for gpu in gpus])


def layout_of(board: str, gpus: int) -> Layout:
    """The layout that is this kind of machine, else the flat one."""
    found = (n for n in LAYOUTS.values() if (n.board, n.gpus) == (board, gpus))
    return next(found, FLAT)


def carve(path: Path, instances: list[list[dict[str, Any]]]) -> None:
    """By index of the GPU, instances at their places. One that the simulated board refuses is left
    out: its profile or place is a difference already."""
    install(path)
    nvml = Nvml()
    for gpu, wanted in zip(nvml.devices(), instances, strict=True):
        for one in wanted:
            with contextlib.suppress(NvmlFailure):
                nvml.create_instance(gpu.uuid, one["profile_id"], one["start"], one["size"])
    nvml.close()


def _read(path: Path, instances: list[list[dict[str, Any]]]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.twin", str(path)], input=json.dumps(instances),
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=SECONDS, text=True,
    )  # fmt: skip
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def main(path: Path) -> None:
    """Only root carves, so the kind of user is set after that."""
    carve(path, json.load(sys.stdin))
    with Store(path).change() as node:
        node.is_root = os.geteuid() == 0
    guard.close()
    json.dump(read(simulated=True), sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
