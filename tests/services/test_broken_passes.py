"""A pass that is killed at any statement leaves whole batches; the next pass places the rest."""

import json
import os
import subprocess
import sys

import pytest

from tests.services.stack import ROOT

pytestmark = pytest.mark.services


@pytest.mark.parametrize(
    "step", [pytest.param(13, id="some"), pytest.param(1, id="each", marks=pytest.mark.slow)]
)
def test_nothing_is_lost_or_doubled(step, tmp_path, postgres_server):
    env = os.environ | {
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        "TESSERA_DATABASE_URL": postgres_server.create_database(migrated=True),
        "TESSERA_BROKER_URL": "memory://",
        "TESSERA_VAR": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.services.broken_passes", str(step)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == {}
    assert found["tried"] >= 60 // step
    if step == 1:
        assert found["left"] == [0, 2, 4, 6], "each batch is whole"
