"""Runs `tests.gpu` in a process of its own: its guard closes pynvml for good."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.simdriver.layouts import FLAT, LAYOUTS
from agents.simdriver.state import new_node
from agents.simdriver.store import Store

ROOT = Path(__file__).parents[2]
BEGIN = "import sys; from pathlib import Path; _, path, *arguments = sys.argv"
RUN = "from tests.gpu.suite import run; sys.exit(run(Path(path) if path else None, arguments))"
SECONDS = 100


USE = "from tests.gpu.use.suite import run; sys.exit(run(Path(path) if path else None, *arguments))"


@dataclass(frozen=True)
class Used:
    """What a run of the level `use` ended with, what it wrote, its summary, and its rows' files."""

    status: int
    err: str
    summary: dict[str, Any]
    rows: dict[int, dict[str, Any]]

    def steps(self, row: int) -> dict[str, Any]:
        """By name, the answer of each step that was done."""
        steps = self.rows[row]["steps"].items()
        return {name: step["answer"] for name, step in steps if step["outcome"] == "done"}

    def impossible(self, row: int) -> dict[str, str]:
        """By name, why a step is not possible."""
        steps = self.rows[row]["steps"].items()
        return {name: s["reason"] for name, s in steps if s["outcome"] == "not_possible"}


@dataclass(frozen=True)
class Ran:
    """What a run ended with, what it wrote, and its report, {} where it wrote none."""

    status: int
    out: str
    err: str
    report: dict[str, Any]

    @property
    def differences(self) -> dict[str, dict[str, Any]]:
        return {found["where"]: found for found in self.report["differences"]}

    def checks(self, outcome: str) -> list[str]:
        """Names of the checks that ended so, without their file and parameters."""
        told = self.report["checks"].items()
        names = [name.split("::")[1].split("[")[0] for name, t in told if t["outcome"] == outcome]
        return sorted(set(names))


def a_node(
    folder: Path, board: str = "H200-141GB", gpus: int = 1, layout: str = FLAT.name
) -> Store:
    """A simulated node for the suite to take for the real one, asked by this very user."""
    store = Store(folder / "driver.json")
    node = new_node(board=board, gpus=gpus, seed=5, latency=False, layout=LAYOUTS[layout])
    node.is_root = os.geteuid() == 0
    store.create(node)
    return store


def ran(
    folder: Path, *arguments: str, store: Store | None, doctoring: str = "", **also: str
) -> Ran:
    """The suite on that node, or on the machine's own driver where there is none; first, what
    `doctoring` does to the driver of that process. `also` are variables of its environment."""
    named = [str(store.path) if store else "", *arguments]
    program = "\n".join((BEGIN, doctoring, RUN))
    out = folder / "out"
    done = subprocess.run(
        [sys.executable, "-c", program, *named],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "OUT": str(out), **also},
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    written = out / "test-gpu.json"
    report = json.loads(written.read_text()) if written.exists() else {}
    return Ran(done.returncode, done.stdout, done.stderr, report)


def used(folder: Path, rows: str, *, store: Store | None, doctoring: str = "", **also: str) -> Used:
    """As `ran`, for rows of the level `use`. `doctoring` is for the process of the suite alone."""
    program = "\n".join((BEGIN, doctoring, USE))
    out = folder / "use"
    done = subprocess.run(
        [sys.executable, "-c", program, str(store.path) if store else "", rows],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "OUT": str(out), **also},
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    summary = out / "test-gpu-use.json"
    files = [json.loads(path.read_text()) for path in sorted(out.glob("use-*.json"))]
    return Used(
        done.returncode,
        done.stderr,
        json.loads(summary.read_text()) if summary.exists() else {},
        {row["row"]: row for row in files},
    )
