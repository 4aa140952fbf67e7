"""Two committers racing for the last device on PostgreSQL: never two winners."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.services, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 200


@pytest.mark.parametrize("mode", ["checked", "unchecked"])
def test_two_committers_never_both_win(mode, tmp_path, postgres_server):
    """`unchecked`: even a committer without its own check is stopped by the database."""
    env = os.environ | {
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        "TESSERA_DATABASE_URL": postgres_server.create_database(migrated=True),
        "TESSERA_BROKER_URL": "memory://",
        "TESSERA_VAR": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.services.race", str(ROUNDS), mode],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["winners"] == {"1": ROUNDS}
    assert told["wrong"] == 0
