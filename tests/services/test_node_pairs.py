"""An admin measures two nodes: the job runs over both, and what it prints becomes their result.

`mpirun` is a stand-in here, as no simulated GPU runs nccl-tests; the rest is the product's.
"""

import json
import os

import pytest

from tests.services.stack import Stack, until
from tests.support.nccl_outputs import a_table

pytestmark = [pytest.mark.services, pytest.mark.slow]
IMAGE = "tessera-example:latest"
# Says what it was started with, then what nccl-tests would.
MPIRUN = """#!/bin/sh
echo "started: $*"
cat <<'TABLE'
{table}TABLE
"""


@pytest.fixture
def stack(tmp_path, postgres_server, redis_server):
    programs = tmp_path / "programs"
    programs.mkdir()
    mpirun = programs / "mpirun"
    mpirun.write_text(MPIRUN.format(table=a_table(12.3)))
    mpirun.chmod(0o755)
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TESSERA_NCCL_TESTS_IMAGE": IMAGE,
    }
    stores = {
        "database_url": postgres_server.create_database(migrated=True),
        "redis_url": redis_server.url(),
    }
    with Stack(var=tmp_path / "var", extra_env=env, **stores) as running:
        told = json.loads(running.manage_program("tests.services.make_admin"))
        running.seeded |= told
        yield running


def test_a_slow_pair_is_found_from_one_call(stack):
    body = {"nodes": ["node-b", "node-a"], "project": "vision", "expected_mb_per_second": 50_000}
    asked = stack.call("POST", "/pair-measurements", json=body)
    assert (asked["first"], asked["second"], asked["verdict"]) == ("node-a", "node-b", "open")

    def measured():
        (row,) = stack.call("GET", "/pair-measurements")["results"]
        return row if row["verdict"] != "open" else None

    row = until(measured, what="the result", every=1)
    log = stack.call("GET", f"/jobs/{asked['job']}/logs", params={"rank": 0})
    assert (row["verdict"], row["busbw_mb_per_second"]) == ("slow", 12_300), (row, log)
    assert "started: --allow-run-as-root -n 4" in log
    assert "all_reduce_perf -g 1 -b 8M -e 1G -f 2 -c 1" in log
