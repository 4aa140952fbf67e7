"""The `tessera` command as a process, against a running portal."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cli_of(url: str, token: str, home: Path) -> Callable[..., str]:
    """Runs a command as the owner of the token and returns what it prints; it must succeed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    env = kept | {
        "TESSERA_URL": url,
        "TESSERA_TOKEN": token,
        "TESSERA_CONFIG": str(home / "config.yaml"),
        "NO_PROXY": "127.0.0.1",
    }

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "portal.cli", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
