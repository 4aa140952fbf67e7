"""The benchmarks of the control plane run to their end, and find nothing broken."""

import json
import subprocess
import sys

import pytest

from tests.services.stack import ROOT

pytestmark = [pytest.mark.services, pytest.mark.slow]


# Both start servers of their own; the fixtures skip where those are not installed.
@pytest.mark.usefixtures("postgres_server", "redis_server")
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


@pytest.mark.usefixtures("postgres_server", "redis_server")
@pytest.mark.parametrize(
    ("arguments", "run"),
    [
        (("--rate=4", "--minutes=0.1", "--seconds=0.5"), "steady"),
        (("--burst=8", "--seconds=0.5"), "burst"),
        (("--restart", "--seconds=0.5"), "restart"),
    ],
)
def test_scale_runs_to_its_end(arguments, run):
    found = printed("scale", *arguments)

    assert found["enrolled"]["held"] == found["enrolled"]["nodes"] == 2
    figures = found[run]
    assert figures.get("broken", {}) == {}
    if run == "restart":
        assert figures["held"] == 2
        assert 0 < figures["serving_after_s"] <= figures["held_after_s"]
        assert figures["job_runs_after_s"] > 0
        return
    assert figures["submit_failures"] == {}
    assert figures["submit_ms"]["p99"] > 0
    assert figures["tasks"]["plan"]["ended"] > 0
    assert figures["memory_mib"]["web"]["largest"] > 20
    if run == "burst":
        assert figures["all_placed"]
        assert figures["placed"] == 8
    else:
        assert figures["submits"] == 24
        assert figures["running_ms"]["p50"] > figures["placed_ms"]["p50"] > 0
        assert figures["reports_probed"] > 0


def printed(benchmark, *arguments):
    command = [sys.executable, "-m", f"tests.benchmarks.{benchmark}", "--nodes=2", "--gpus=2"]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3_000:]
    return json.loads(done.stdout)
