"""Two reports of one gang at once, from two nodes, beside a planning pass: no deadlock, and the
right end each time. `python -m tests.services.gang_race 1000` takes a database of its own."""

import json
import os
import subprocess
import sys

import pytest

from tests.environment.debian import POSTGRES
from tests.environment.levels import skip_without
from tests.environment.postgres import running_postgres
from tests.services.stack import ROOT

pytestmark = pytest.mark.services


@pytest.mark.parametrize(
    "rounds", [pytest.param(12, id="few"), pytest.param(60, id="many", marks=pytest.mark.slow)]
)
@pytest.mark.timeout(3_600)
def test_two_reports_of_one_gang_at_once(rounds, tmp_path):
    skip_without(POSTGRES)
    with running_postgres(("deadlock_timeout=10ms", "log_lock_waits=on")) as server:
        env = os.environ | {
            "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
            "TESSERA_DATABASE_URL": server.create_database(migrated=True),
            "TESSERA_BROKER_URL": "memory://",
            "TESSERA_VAR": str(tmp_path),
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.services.gang_race", str(rounds)],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        failed = sum(number % 3 > 0 for number in range(rounds))
        assert found == {
            "ended": {"succeeded": rounds - failed, "failed": failed},
            "errors": {},
            "wrong": {},
        }
        assert "deadlock detected" not in (server.home / "log").read_text(errors="replace")
