"""On whole GPUs a what-if plays exactly as the replay of traces does, which is another program."""

import random

import pytest

from agents.contract.boards import boards
from scheduler.core.policy import Backfill, Order, Policy, Preemption
from scheduler.replay.world import Work
from scheduler.replay.world import World as TraceWorld
from scheduler.what_if.devices import emptied
from scheduler.what_if.values import Setting
from tests.builders import H200
from tests.unit.what_if.worlds import a_recorded, a_week, played

JOBS, GPUS = 60, 8


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": Order.FIFO, "backfill": Backfill.NONE},
        {"order": Order.SHORTEST, "backfill": Backfill.EASY, "reservations": 3},
        {"order": Order.SMALLEST, "preemption": Preemption.ORDER, "hysteresis": 1.0},
    ],
    ids=["fair", "fifo", "shortest", "smallest"],
)
def test_both_worlds_start_and_end_every_job_at_the_same_second(options):
    policy = Policy(**{"preemption": Preemption.OFF, "protection_seconds": 0} | options)
    draw = random.Random(7)
    week = a_week(*(_job(draw, key) for key in range(JOBS)))
    trace = TraceWorld(1, GPUS, boards()[H200], policy, restart_cost=0)
    setting = Setting(emptied(trace.snapshot(0).nodes), (), policy)
    trace.run(Work(r.job, r.job.queued_at, r.ran_seconds, r.ran_seconds) for r in week.jobs)
    world = played(setting, week)
    assert {k: (f.started_at, f.ended_at, f.stopped) for k, f in world.fates.items()} == {
        k: (w.started_at, w.ended_at, w.stopped) for k, w in trace.work.items()
    }
    assert any(fate.waited_seconds for fate in world.fates.values())


def _job(draw, key):
    ran = draw.randint(60, 4_000)
    return a_recorded(
        key,
        ran,
        at=draw.randint(0, 9_000),
        gpus=draw.choice([1, 1, 2, 4, 8]),
        cpu_milli=1,
        memory_mib=1,
        preemptible=True,
        time_limit_seconds=ran * draw.randint(1, 4),
    )
