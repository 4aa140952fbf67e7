"""The `tessera` command as a process of its own, over HTTP."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cli_process(home: Path, **variables: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command with the configuration in `home`, and of the variables of Tessera with these
    alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    own = {"TESSERA_CONFIG": str(home / "config.yaml"), "NO_PROXY": "*"}

    def run(*words: str, input: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "portal.cli", *words],
            cwd=ROOT,
            env=kept | own | variables,
            input=input,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
