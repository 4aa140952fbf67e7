"""Expected starts where only one future is possible, and what is promised about the others."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.forecast import hazard as hz
from scheduler.core.forecast.queue_kernel import NEXT_ENDS
from scheduler.core.forecast.starts import MIN_ENDED_RUNS, simulate_starts, start_estimates
from scheduler.core.model.policy import BackfillMode
from tests.unit.forecast.queues import ANY_PART_OF_THE_LIMIT, a_holding, a_queue, a_queued

HOUR = 3_600


def sure(state):
    """Starts where every forecast says the same."""
    answers = start_estimates(state, runs=4)
    for id, found in answers.items():
        if found is not None:
            assert found.optimistic == found.expected == found.pessimistic, id
    return {id: found and found.expected for id, found in answers.items()}


def test_a_job_starts_when_the_one_before_it_reaches_its_limit():
    state = a_queue([8], [a_holding(8, HOUR, age=600)], [a_queued("1", 8, 100)])
    assert sure(state) == {"1": HOUR - 600}


def test_times_are_counted_from_now():
    state = a_queue([8], [a_holding(8, HOUR)], [a_queued("1", 8, 100, at=400)], now=500.0)
    assert sure(state) == {"1": 500 + HOUR}


def test_easy_starts_a_later_job_that_is_gone_before_the_head_needs_its_place():
    running = [a_holding(6, 1_000)]
    waiting = [
        a_queued("head", 8, 500, at=1),
        a_queued("short", 2, 1_000, at=2),
        a_queued("long", 2, 1_001, at=3),
    ]
    assert sure(a_queue([8], running, waiting, by_arrival=True)) == {
        "head": 1_000,
        "short": 0,
        "long": 1_500,
    }


def test_easy_starts_a_long_job_beside_the_place_that_is_kept():
    running = [a_holding(6, 1_000, node=0), a_holding(4, 9_000, node=1)]
    waiting = [a_queued("head", 8, 500, at=1), a_queued("long", 2, 5_000, at=2)]
    state = a_queue([8, 8], running, waiting)
    assert sure(state) == {"head": 1_000, "long": 0}
    other = a_queue([8, 8], running, [waiting[0], a_queued("wide", 5, 5_000, at=2)])
    assert sure(other) == {"head": 1_000, "wide": 1_500}


def test_without_backfill_nobody_overtakes_and_with_skip_everybody_may():
    running = [a_holding(6, 1_000)]
    waiting = [a_queued("head", 8, 500, at=1), a_queued("long", 2, 5_000, at=2)]
    strict = a_queue([8], running, waiting, backfill=BackfillMode.NONE)
    assert sure(strict) == {"head": 1_000, "long": 1_500}
    skip = a_queue([8], running, waiting, backfill=BackfillMode.SKIP)
    assert sure(skip) == {"head": 5_000, "long": 0}


def test_a_gang_waits_for_whole_nodes():
    running = [a_holding(1, 1_000, node=0), a_holding(1, 3_000, node=1)]
    gang = a_queued("gang", 8, 100, replicas=2)
    assert sure(a_queue([8, 8, 8], running, [gang])) == {"gang": 1_000}
    assert sure(a_queue([8, 8], running, [gang])) == {"gang": 3_000}


def test_bands_come_before_keys_and_keys_before_arrival():
    waiting = [
        a_queued("big", 8, 100, key=800, at=1),
        a_queued("small", 8, 100, key=80, at=2),
        a_queued("low", 8, 100, key=1, at=0, band=1),
    ]
    state = a_queue([8], [a_holding(8, 50)], waiting)
    assert sure(state) == {"small": 50, "big": 150, "low": 250}


def test_a_long_wait_makes_a_job_smaller():
    waiting = [
        a_queued("old", 8, 100, key=150, at=-1_000),
        a_queued("new", 8, 100, key=100, at=0),
    ]
    state = a_queue([8], [a_holding(8, 50)], waiting)
    assert sure(state) == {"new": 50, "old": 150}
    patient = a_queue([8], [a_holding(8, 50)], waiting, patience_seconds=1_000.0)
    assert sure(patient) == {"old": 50, "new": 150}


def test_a_job_only_runs_on_the_nodes_of_its_pool():
    running = [a_holding(8, 5_000, node=0), a_holding(8, 10, node=1)]
    waiting = [a_queued("1", 8, 100, pool=1)]
    pools = ((True, True), (True, False))
    assert sure(a_queue([8, 8], running, waiting, pools=pools)) == {"1": 5_000}


def test_what_fits_nowhere_has_no_estimate_and_blocks_nobody():
    waiting = [a_queued("never", 9, 100, at=0), a_queued("1", 8, 100, at=1)]
    state = a_queue([8], [a_holding(8, 50)], waiting, backfill=BackfillMode.NONE)
    assert sure(state) == {"never": None, "1": 50}


@pytest.mark.parametrize("by_limit", [True, False])
def test_until_enough_runs_have_ended_there_is_no_estimate_and_limits_alone_are_no_basis(by_limit):
    curve = -1 if by_limit else 0
    running, waiting = a_holding(8, 1_000, curve=curve), a_queued("1", 8, 100, curve=curve)
    fields = {"ratios": ANY_PART_OF_THE_LIMIT if by_limit else (), "curves": (hz.PRIOR,)}
    early = a_queue([8], [running], [waiting], ended_runs=MIN_ENDED_RUNS - 1, **fields)
    assert simulate_starts(early) is None
    assert start_estimates(early) == {"1": None}
    found = start_estimates(replace(early, ended_runs=MIN_ENDED_RUNS))["1"]
    assert 0 < found.optimistic <= found.expected <= found.pessimistic <= 1_000
    limits = 1 if by_limit else 0
    ended = f"30 forecasts from {MIN_ENDED_RUNS} ended runs"
    assert found.basis.text == f"{ended} and the time limits of {limits} running jobs"


def test_nobody_starts_before_its_begin_time_and_then_it_takes_its_place_in_the_order():
    running = [a_holding(8, 1_000)]
    waiting = [
        a_queued("later", 8, 100, at=1, begin_at=1_500.0),
        a_queued("soon", 8, 100, at=2, begin_at=500.0),
        a_queued("now", 8, 2_000, at=3),
    ]
    state = a_queue([8], running, waiting, by_arrival=True)
    assert sure(state) == {"soon": 1_000, "now": 1_100, "later": 3_100}
    empty = a_queue([8], waiting=waiting[:2], by_arrival=True)
    assert sure(empty) == {"soon": 500, "later": 1_500}


def test_who_begins_later_is_not_mixed_up_with_those_who_may_still_come():
    arrivals = tuple(a_queued("", 1, 10, at=9_000 - 100.0 * i) for i in range(40, 0, -1))
    waiting = [a_queued("a", 8, 50, at=1, begin_at=9_950.0), a_queued("b", 8, 70, at=2)]
    state = a_queue(
        [8], [a_holding(8, 500)], waiting, now=9_000.0, by_arrival=True, arrivals=arrivals,
        backfill=BackfillMode.NONE,
    )  # fmt: skip
    assert sure(state)["b"] == 9_500
    found = simulate_starts(state)
    assert found.ids == ("b", "a")
    assert (found.starts[:, 1] >= 950).all()
    assert (found.starts[:, 1] <= 950 + 10).all(), "before everybody who came after it"


def test_the_seed_decides_every_draw():
    arrivals = [a_queued("", 4, 500, at=-100.0 * i) for i in range(40, 0, -1)]
    state = a_queue(
        [8], [a_holding(8, 1_000)], [a_queued("1", 8, 700), a_queued("2", 4, 100)],
        ratios=ANY_PART_OF_THE_LIMIT, arrivals=tuple(arrivals), patience_seconds=1e4,
    )  # fmt: skip
    assert start_estimates(state, seed=1) == start_estimates(state, seed=1)
    assert start_estimates(state, seed=1) != start_estimates(state, seed=2)


def test_a_question_about_one_job_is_answered_like_one_about_all():
    waiting = [a_queued(str(i), 1 + i % 8, 100 + i, at=i) for i in range(20)]
    state = a_queue([8], [a_holding(8, 1_000)], waiting, ratios=ANY_PART_OF_THE_LIMIT)
    assert start_estimates(state, only={"7"}) == {"7": start_estimates(state)["7"]}


def test_smaller_jobs_that_may_still_come_push_a_large_one_back():
    arrivals = tuple(a_queued("", 4, 500, key=1, at=-100.0 * i) for i in range(40, 0, -1))
    waiting = [a_queued("large", 8, 700, key=9), a_queued("before", 8, 100, key=5)]
    alone = a_queue([8], [a_holding(8, 1_000)], waiting)
    busy = a_queue([8], [a_holding(8, 1_000)], waiting, arrivals=arrivals)
    quiet, late = start_estimates(alone)["large"], start_estimates(busy)["large"]
    assert late.expected > quiet.expected


def test_under_first_come_nobody_who_may_still_come_matters():
    arrivals = tuple(a_queued("", 4, 500, at=9_000 - 100.0 * i) for i in range(40, 0, -1))
    waiting = [a_queued("1", 8, 700, at=8_000), a_queued("2", 8, 100, at=8_900)]
    alone = a_queue([8], [a_holding(8, 1_000)], waiting, now=9_000.0, by_arrival=True)
    busy = replace(alone, arrivals=arrivals)
    assert sure(busy) == sure(alone) == {"1": 10_000, "2": 10_700}


def test_run_times_without_a_limit_follow_the_hazard_of_their_age():
    curve = np.zeros(hz.BINS)
    curve[0], curve[10] = 0.5, 1.0
    curve[-1] = 1.0
    low, high = hz.EDGES[10], hz.EDGES[11]
    old = a_queue(
        [8], [a_holding(8, 1e6, age=100.0, curve=0)], [a_queued("1", 8, 100)], curves=(curve,)
    )
    found = simulate_starts(old, runs=200)
    assert found is not None
    assert (found.starts >= low - 100).all()
    assert (found.starts <= high - 100).all()
    young = a_queue([8], [a_holding(8, 1e6, curve=0)], [a_queued("1", 8, 100)], curves=(curve,))
    starts = simulate_starts(young, runs=200).starts[:, 0]
    assert np.mean(starts <= 60) == pytest.approx(0.5, abs=0.12)


def test_a_reservation_behind_more_ends_than_are_looked_at_one_by_one_is_kept_all_the_same():
    ends = [100 * (i + 1) for i in range(NEXT_ENDS + 4)]
    running = [a_holding(1, end) for end in ends]
    all_gpus, last = len(ends), ends[-1]
    waiting = [
        a_queued("head", all_gpus, 500, at=1),
        a_queued("short", 1, last - 100, at=2),
        a_queued("long", 1, last - 99, at=3),
    ]
    found = sure(a_queue([all_gpus], running, waiting, by_arrival=True))
    assert found == {"head": last, "short": 100, "long": last + 500}


def test_a_gang_that_does_not_fit_says_nothing_of_a_smaller_one_or_of_a_single_job():
    running = [a_holding(4, 900, node=0), a_holding(8, 900, node=1)]
    waiting = [
        a_queued("wide", 4, 500, at=1, replicas=3),
        a_queued("alike", 4, 500, at=2, replicas=4),
        a_queued("single", 4, 500, at=3),
    ]
    found = sure(a_queue([8, 8], running, waiting, backfill=BackfillMode.SKIP))
    assert found["single"] == 0
    assert found["wide"] == 900
