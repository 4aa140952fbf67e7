"""One Idempotency-Key from several callers at once on PostgreSQL: never two jobs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 20


def test_one_key_never_makes_two_jobs(tmp_path, postgres_server):
    env = os.environ | {
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        "TESSERA_DATABASE_URL": postgres_server.create_database(),
        "TESSERA_BROKER_URL": "memory://",
        "TESSERA_RATE_SUBMITS": "100000/min",
        "TESSERA_VAR": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.services.key_race", str(ROUNDS)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["made"] == {"1": ROUNDS}
    assert (told["torn"], set(told["statuses"]) <= {"201", "409"}) == (0, True), told
