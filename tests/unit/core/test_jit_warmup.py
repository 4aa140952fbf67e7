"""What a worker does before its first pass, and what an image has ready for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

from scheduler.core.forecast import hazard, queue_kernel
from scheduler.core.packing import kernels, winners
from scheduler.jit_warmup import warm_up

# What Python calls of what is compiled; these call the rest.
CALLED = (
    *(kernels.score_columns, kernels.chosen_gpus, winners.best_by_scan),
    *(hazard.group_sums, hazard.group_curve, hazard.gittins, hazard.gittins_all),
    *(winners.build_tournaments, winners.replay_node, queue_kernel.run_queue),
)


def test_a_worker_finds_places_a_reason_and_a_time_before_anybody_asks():
    found, told = warm_up()
    assert {place.job for place in found.placements} == {"1", "2"}
    assert [hold.job for hold in found.deferrals] == ["3"]
    assert set(told) == {"3"}


def test_what_is_compiled_is_there_before_the_first_pass():
    warm_up()
    assert all(isinstance(function, Dispatcher) for function in CALLED)
    assert [one.__name__ for one in CALLED if not one.nopython_signatures] == []


ROOT = Path(__file__).resolve().parents[3]


# Root may write everywhere, unless it gives that up.
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if not os.geteuid() else ()


def warm_up_elsewhere(cache, *arguments):
    """`python -m scheduler.jit_warmup` in a process of its own."""
    return subprocess.run(
        [*WITHOUT_RIGHTS, sys.executable, "-m", "scheduler.jit_warmup", *arguments],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_CPU_NAME": "generic"},
        capture_output=True,
        text=True,
        check=False,
    )


def set_writable(cache, writable):
    for at in (cache, *cache.rglob("*")):
        at.chmod((0o755 if at.is_dir() else 0o644) if writable else 0o555)


def contents(cache):
    return {file: file.stat().st_mtime_ns for file in cache.rglob("*.nb?")}


@pytest.mark.slow
def test_an_image_has_code_that_is_loaded_where_nobody_can_write(tmp_path):
    empty = warm_up_elsewhere(tmp_path, "--from-cache")
    assert (empty.returncode, empty.stderr.partition(":")[0]) == (1, "not in the cache")

    set_writable(tmp_path, False)
    loaded = warm_up_elsewhere(tmp_path, "--from-cache")
    assert (loaded.returncode, loaded.stderr) == (0, "")

    # What is missing is compiled for one process alone, and is no failure.
    set_writable(tmp_path, True)
    for file in tmp_path.rglob("*.group_curve-*"):
        file.unlink()
    left = contents(tmp_path)
    set_writable(tmp_path, False)
    named = warm_up_elsewhere(tmp_path, "--from-cache")
    assert named.stderr.strip() == "not in the cache: group_curve"
    assert warm_up_elsewhere(tmp_path).returncode == 0
    assert contents(tmp_path) == left
    set_writable(tmp_path, True)
