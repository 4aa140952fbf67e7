"""Install the `tessera` command alone into a fresh environment, run it, and measure it, as JSON.

    python -m tests.benchmarks.cli_install

Needs the package registry that pip is configured for. Code 1 above 20 MB.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
MOST_BYTES = 20_000_000


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        python = home / "venv" / "bin" / "python"
        run(sys.executable, "-m", "venv", "--without-pip", str(home / "venv"))
        lock = str(ROOT / "requirements" / "cli.lock")
        into = (str(UV), "pip", "install", "--quiet", "--system-certs", "--python", str(python))
        run(*into, "--require-hashes", "--requirement", lock)
        run(*into, "--no-deps", str(_wheel(home)))
        site = Path(run(str(python), "-c", "import httpx; print(httpx.__file__)")).parents[1]
        tessera = str(home / "venv" / "bin" / "tessera")
        report: dict[str, Any] = measured(site) | {"version": run(tessera, "--version")}
        began = time.monotonic()
        run(tessera, "--help")
        report["help_seconds"] = round(time.monotonic() - began, 2)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return int(report["bytes"] > MOST_BYTES)


def measured(site: Path) -> dict[str, object]:
    """Bytes of files by package, largest first; bytecode is made later and is not counted."""
    by_package: dict[str, int] = {}
    for path in site.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            name = path.relative_to(site).parts[0]
            by_package[name] = by_package.get(name, 0) + path.stat().st_size
    largest = sorted(by_package.items(), key=lambda item: -item[1])[:8]
    return {"bytes": sum(by_package.values()), "most_bytes": MOST_BYTES, "largest": dict(largest)}


def _wheel(home: Path) -> Path:
    """Built from a copy: a build leaves folders behind."""
    source = home / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for package in ("agents", "portal", "scheduler"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, source / package, ignore=ignored)
    run(str(UV), "build", "-q", "--system-certs", "--wheel", "--out-dir", str(home), str(source))
    (wheel,) = home.glob("*.whl")
    return wheel


def run(*command: str) -> str:
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
