"""Install the `tessera` command alone into a fresh environment, run it, and measure it, as JSON.

    python -m tests.benchmarks.cli_install

Needs the package registry that pip is configured for. Code 1 above 20 MB.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.wheels import ROOT, UV, build_wheel

MOST_BYTES = 20_000_000


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        python = home / "venv" / "bin" / "python"
        run(sys.executable, "-m", "venv", "--without-pip", str(home / "venv"))
        lock = str(ROOT / "requirements" / "cli.lock")
        into = (str(UV), "pip", "install", "--quiet", "--system-certs", "--python", str(python))
        run(*into, "--require-hashes", "--requirement", lock)
        run(*into, "--no-deps", str(build_wheel(home)))
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


def run(*command: str) -> str:
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
