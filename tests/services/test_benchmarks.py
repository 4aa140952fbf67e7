"""The benchmarks of the control plane run to their end, and find nothing broken."""

import json
import subprocess
import sys

import pytest

from tests.environment.debian import POSTGRES, REDIS
from tests.environment.levels import skip_without
from tests.services.stack import ROOT

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.soak]


@pytest.fixture(autouse=True)
def servers():
    """Both benchmarks start their own."""
    skip_without(POSTGRES)
    skip_without(REDIS)


def test_throughput_measures_real_and_coroutine_agents():
    found = printed("throughput", "--jobs=12", "--alone=1", "--runs=alone,real,queued")

    assert found["broken"] == {}
    for name in ("real", "queued"):
        run = found["runs"][name]
        assert run["jobs"] == 12, name
        # 8 of them wait for the 4 GPUs.
        assert run["gpus_refilled"] > 0, name
        assert run["refill_ms"]["idle"]["p50"] > 0, name
        assert run["sql_per_job"] > run["transactions_per_job"] > 0, name
    assert found["submit_to_start_p50_ms"] > found["submit_p50_ms"] > 0
    assert found["cpu_ms_per_job"]["job_processes"] > 0
    assert found["bare_spawn"]["before"]["jobs_per_s"] > found["jobs_per_s"] > 0


def test_scale_measures_a_restart_a_burst_and_steady_submits():
    found = printed("scale", "--restart", "--burst=8", "--minutes=0.1", "--rate=4", "--seconds=0.5")

    assert found["enrolled"]["held"] == found["enrolled"]["nodes"] == 2
    restart, burst, steady = found["restart"], found["burst"], found["steady"]
    assert restart["held"] == 2
    assert 0 < restart["serving_after_s"] <= restart["held_after_s"] <= restart["answered_after_s"]
    assert restart["job_runs_after_s"] > 0
    assert burst["all_placed"]
    assert burst["placed"] == 8
    assert steady["submits"] == 24
    assert steady["running_ms"]["p50"] > steady["placed_ms"]["p50"] > 0
    assert steady["placed_ms_by_minute"] == [steady["placed_ms"]]
    assert steady["reports_probed"] > 0
    # Of a burst, all may be placed before its only pass has ended.
    assert steady["tasks"]["plan"]["ended"] > 0
    for run in (burst, steady):
        assert run["settled"]
        assert run["broken"] == {}
        assert run["submit_failures"] == {}
        assert run["submit_ms"]["p99"] > 0
        assert run["memory_mib"]["web"]["largest"] > 20


def printed(benchmark, *arguments):
    command = [sys.executable, "-m", f"tests.benchmarks.{benchmark}", "--nodes=2", "--gpus=2"]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3_000:]
    return json.loads(done.stdout)
