"""One Idempotency-Key from several callers at once on PostgreSQL: never two jobs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 20


@pytest.mark.parametrize(("mode", "statuses"), [("kept", {"201", "409"}), ("unkept", {"201"})])
def test_one_key_never_makes_two_jobs(mode, statuses, tmp_path, postgres_server):
    """`unkept`: even without the kept answers the database lets only one job have the key."""
    env = os.environ | {
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        "TESSERA_DATABASE_URL": postgres_server.create_database(),
        "TESSERA_BROKER_URL": "memory://",
        "TESSERA_RATE_SUBMITS": "100000/min",
        "TESSERA_VAR": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.services.key_race", str(ROUNDS), mode],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["made"] == {"1": ROUNDS}
    assert (told["torn"], set(told["statuses"]) <= statuses) == (0, True), told
