"""Programs of this folder, run against a PostgreSQL database: what races or is killed is not the
test's own process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.services.stack import ROOT


def run_program(module: str, *arguments: object, database: str, var: Path, **env: str) -> Any:
    """Run `tests.services.MODULE`, and return its last line, decoded. It has no broker."""
    own = {
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        "TESSERA_DATABASE_URL": database,
        "TESSERA_BROKER_URL": "memory://",
        "TESSERA_VAR": str(var),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", f"tests.services.{module}", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | own | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
