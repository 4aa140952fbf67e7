"""The command stands alone: neither Django nor the rest of Tessera, in little room."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MOST_BYTES = 20_000_000
BARRED = ("django", "celery", "rest_framework", "redis", "numpy", "scheduler", "agents", "docker")
# The table of request fields, and the packages that it lies in: docstrings alone.
ALLOWED = ("scheduler", "scheduler.core", "scheduler.core.request_fields")

PROGRAM = f"""
import sys

class Bar:
    def find_spec(self, name, path=None, target=None):
        first = name.partition(".")[0]
        is_other = first == "portal" and name not in ("portal", "portal.cli") and not (
            name.startswith("portal.cli.")
        )
        is_table = name in {ALLOWED!r} or name.startswith({ALLOWED[-1]!r} + ".")
        if not is_table and (first in {BARRED!r} or is_other):
            raise ImportError(name + " is barred")

sys.meta_path.insert(0, Bar())
sys.argv = ["tessera", *sys.argv[1:]]
from portal.cli.main import app
app(prog_name="tessera")
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_runs_where_nothing_else_of_tessera_can_be_imported():
    done = run("--help")
    assert done.returncode == 0, done.stderr
    assert "submit" in done.stdout


def test_the_bar_bars():
    for other in ("portal.errors", "scheduler.core.request", "scheduler.tasks"):
        code = PROGRAM.replace("from portal.cli.main import app", f"import {other}")
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert "is barred" in done.stderr


def test_it_is_a_module_too():
    command = [sys.executable, "-m", "portal.cli", "--version"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "tessera")


def test_what_its_lock_file_installs_is_small():
    """As installed here, without bytecode; tests/benchmarks/cli_install.py installs it afresh."""
    text = (ROOT / "requirements" / "cli.lock").read_text()
    pinned = re.findall(r"^([a-z0-9._-]+)==\S+ (?!; sys_platform == 'win32')", text, re.MULTILINE)
    assert {"typer", "rich", "httpx", "pyyaml"} <= set(pinned)
    own = sum(path.stat().st_size for path in (ROOT / "portal" / "cli").rglob("*.py"))
    assert sum(map(_bytes, pinned)) + own <= MOST_BYTES


def _bytes(name: str) -> int:
    try:
        found = distribution(name)
    except PackageNotFoundError as missing:
        raise AssertionError(f"{name} of cli.lock is not installed") from missing
    paths = [Path(str(file.locate())) for file in found.files or []]
    assert paths, f"{name} lists no files"
    return sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.exists())
