"""Recorded jobs on another cluster: who waits, what is held, and that nobody is lost."""

import json
from dataclasses import asdict, replace

import pytest

from agents.contract.documents import SliceKind
from scheduler.core.model.policy import BackfillMode, PreemptionMode
from scheduler.core.model.snapshot import PastRun, Priority
from scheduler.virtual.simulation import CARVE_SECONDS
from scheduler.what_if.comparison import MAX_JOBS, compare
from scheduler.what_if.errors import ChangeRefusedError
from scheduler.what_if.json_format import read_changes
from tests.support.snapshots import a_gpu, a_node, a_quota
from tests.unit.what_if.scenarios import (
    HOUR,
    SINCE,
    UNTIL,
    a_recorded,
    a_scenario,
    a_window,
    an_owner,
    away,
    compared,
    outcome,
    played,
)

EIGHT_SLICES = a_window(*(a_recorded(n, mig="3g.71gb", waited=n) for n in range(8)))


def test_a_larger_quota_halves_the_wait_on_two_mig_gpus():
    slice_gpus = 0.5
    scenario = a_scenario(quotas=[a_quota(gpus=slice_gpus)])
    units = {"kind": "quota", "project": "p", "units": 56_000}
    found = compared(scenario, EIGHT_SLICES, *read_changes([units]))
    # One after another: 0 to 7 hours; in pairs: 0, 0, 1, 1, 2, 2, 3, 3 hours.
    assert found.baseline.waits.mean_seconds == 28 * HOUR // 8
    assert found.changed.waits.mean_seconds == 12 * HOUR // 8
    assert found.baseline.waits.longest_seconds == 7 * HOUR
    assert found.differences["mean_wait_seconds"] == -2 * HOUR
    assert found.baseline.held_for == {"quota_project": 28 * HOUR}
    assert found.changes == ("p may hold 1 GPUs",)


def test_waits_for_devices_are_told_apart_from_waits_for_quota():
    found = outcome(a_scenario(), a_window(*(a_recorded(n, gpus=1) for n in range(4))))
    assert sum(found.held_for.values()) == 2 * HOUR
    assert not {"quota_project", "quota_user"} & found.held_for.keys()
    assert found.waits.p50_seconds == 0
    assert (found.waits.p95_seconds, found.waits.longest_seconds) == (HOUR, HOUR)


def test_a_node_more_ends_the_wait_and_one_less_makes_it_longer():
    scenario = a_scenario(a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b"))
    window = a_window(*(a_recorded(n, gpus=1) for n in range(4)))
    more = compared(scenario, window, *read_changes([{"kind": "nodes", "count": 2, "like": "a"}]))
    assert more.baseline.waits.mean_seconds == HOUR // 2
    assert more.changed.waits.mean_seconds == 0
    assert more.changed.gpus == 4
    assert more.changed.allocated == pytest.approx(more.baseline.allocated / 2, abs=1e-4)
    less = compared(scenario, window, *read_changes([{"kind": "without", "node": "b"}]))
    assert less.changed.waits.mean_seconds == 6 * HOUR // 4


def test_a_pinned_layout_keeps_whole_gpus_out_and_its_slices_ready():
    window = a_window(a_recorded(1, gpus=2), a_recorded(2, mig="3g.71gb", at=1))
    pin = {"kind": "layout", "node": "n1", "gpu": 1, "profiles": ["3g.71gb", "3g.71gb"]}
    found = compared(a_scenario(), window, *read_changes([pin]))
    assert found.baseline.waits.longest_seconds == HOUR - 1
    # Two whole GPUs at once are no longer there: the job still waits when all is over.
    assert found.changed.left_waiting == 1
    assert found.changed.waits.longest_seconds == 0


def test_idle_slices_are_merged_for_a_whole_gpu_and_that_takes_its_time():
    window = a_window(a_recorded(1, mig="1g.18gb"), a_recorded(2, gpus=1, at=2 * HOUR))
    scenario = a_scenario(a_node(a_gpu()))
    simulation = played(scenario, window)
    assert simulation.outcomes["2"].waited_seconds == CARVE_SECONDS
    kept = played(a_scenario(a_node(a_gpu()), merge=False), window)
    assert kept.outcomes["2"].started_at == 0


def test_a_slice_stays_for_the_next_one_and_a_whole_gpu_does_not():
    simulation = played(a_scenario(), a_window(a_recorded(1, mig="1g.18gb"), a_recorded(2, gpus=1)))
    left = [s for node in simulation.snapshot(UNTIL).nodes for gpu in node.gpus for s in gpu.slices]
    assert [(s.kind, s.allocated, s.ready) for s in left] == [(SliceKind.MIG, False, True)]
    assert all(n.cpu_free_milli == n.cpu_total_milli for n in simulation.snapshot(UNTIL).nodes)


def test_shares_of_one_project_stand_together_on_a_gpu():
    jobs = [a_recorded(n, mps=(40, 20_000)) for n in range(3)]
    found = outcome(a_scenario(a_node(a_gpu())), a_window(*jobs))
    assert found.waits.longest_seconds == HOUR
    assert found.waits.mean_seconds == HOUR // 3


def test_a_gang_waits_for_all_of_its_devices_and_cpu_counts():
    gang = a_recorded(2, gpus=1, replicas=2, at=1, topology="any")
    found = outcome(a_scenario(), a_window(a_recorded(1, gpus=1), gang))
    assert found.waits.longest_seconds == HOUR - 1
    thick = [a_recorded(n, gpus=1, cpu_milli=64_000) for n in range(2)]
    assert outcome(a_scenario(), a_window(*thick)).waits.longest_seconds == HOUR


def test_labels_keep_jobs_to_their_nodes():
    scenario = a_scenario(a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b", labels=("nvme",)))
    window = a_window(*(a_recorded(n, gpus=1, needs=("nvme",)) for n in range(2)))
    assert outcome(scenario, window).waits.longest_seconds == HOUR


def test_preempted_work_goes_on_where_it_was_and_the_stops_are_counted():
    low = a_recorded(1, 2 * HOUR, gpus=1, priority=Priority.LOW, preemptible=True)
    high = a_recorded(2, gpus=1, at=HOUR, priority=Priority.HIGH)
    scenario = a_scenario(a_node(a_gpu()), preemption=PreemptionMode.PRIORITY)
    found = outcome(scenario, a_window(low, high))
    assert found.preemptions == 1
    assert found.waits_by_priority["high"].longest_seconds == 0
    assert found.waits_by_priority["low"].longest_seconds == HOUR
    assert found.last_ended_at == SINCE + 3 * HOUR


def test_a_follower_and_a_later_begin_are_waited_for():
    first = a_recorded(1, gpus=1)
    follower = a_recorded(2, gpus=1, after=("1",))
    late = a_recorded(3, gpus=1, begin_at=SINCE + 5 * HOUR)
    simulation = played(a_scenario(), a_window(first, follower, late))
    assert simulation.outcomes["2"].started_at == SINCE + HOUR
    assert simulation.outcomes["3"].started_at == SINCE + 5 * HOUR


def test_who_took_a_job_back_does_so_again_unless_it_runs_by_then():
    window = a_window(
        a_recorded(1, gpus=2),
        a_recorded(2, 600, gpus=2, at=1, withdrawn_at=SINCE + 600),
        a_recorded(3, gpus=2, at=2),
    )
    found = compared(
        a_scenario(), window, *read_changes([{"kind": "nodes", "count": 1, "like": "n1"}])
    )
    assert (found.baseline.withdrawn, found.changed.withdrawn) == (1, 0)
    assert (found.baseline.ended, found.changed.ended) == (2, 3)


def test_what_can_never_run_on_the_changed_cluster_is_told_as_refused():
    scenario = a_scenario(a_node(a_gpu(), a_gpu(), name="a"), a_node(a_gpu(), name="b"))
    window = a_window(a_recorded(1, gpus=2), a_recorded(2, gpus=1, after=("1",)))
    found = compared(scenario, window, *read_changes([{"kind": "without", "node": "a"}]))
    assert (found.changed.refused, found.changed.left_waiting, found.changed.ended) == (1, 1, 0)


def test_what_ran_when_the_window_began_holds_its_devices_and_is_not_counted():
    running = a_recorded(1, gpus=2, at=-9 * HOUR, was_running=True, is_counted=False)
    waiting = a_recorded(2, gpus=1, at=-8 * HOUR, is_counted=False)
    found = outcome(a_scenario(), a_window(waiting, running, a_recorded(3, gpus=1)))
    assert found.jobs == 1
    assert found.waits.mean_seconds == HOUR - 1


def test_the_allocated_part_is_of_what_is_there_by_model_and_within_the_window():
    scenario = a_scenario(a_node(a_gpu(), a_gpu(board="A30-24GB")), away(a_node(a_gpu(), name="x")))
    half = (UNTIL - SINCE) // 2
    job = a_recorded(1, half, gpus=1, models=("A30",), time_limit_seconds=half)
    late = a_recorded(2, HOUR, gpus=1, at=UNTIL - SINCE, models=("H200",))
    found = outcome(scenario, a_window(job, late))
    assert found.allocated_by_model == {"A30": 0.5, "H200": 0.0}
    assert (found.allocated, found.gpus) == (0.25, 2)


def test_fair_share_turns_to_who_used_less():
    owners = [an_owner("p"), an_owner("q"), an_owner("p", "u"), an_owner("q", "u")]
    mine = [a_recorded(n, gpus=2) for n in range(3)]
    other = a_recorded(9, gpus=2, at=10, project="q")
    simulation = played(a_scenario(owners=owners, quotas=[]), a_window(*mine, other))
    assert simulation.outcomes["9"].started_at == SINCE + HOUR


@pytest.mark.parametrize("groups", [("long", "short"), ("short", "long")], ids="-".join)
def test_the_fair_order_knows_what_ran_before_the_window(groups):
    def past(group, ran, number):
        times = {"ended_at": SINCE - 10**6 + 10**4 * number, "completed": True}
        return PastRun("p", "u", group, 2, 4 * HOUR, False, ran, **times)

    known = [past("long", 3 * HOUR, n) for n in range(40)]
    known += [past("short", 60, 40 + n) for n in range(40)]
    jobs = [a_recorded(1, gpus=2)]
    for key, group in enumerate(groups, 2):
        jobs.append(a_recorded(key, gpus=2, at=key, group=group, limit_is_chosen=False))
    scenario = a_scenario(owners=[an_owner(), an_owner("p", "u")])
    simulation = played(replace(scenario, history=tuple(known)), a_window(*jobs))
    started = {f.recorded.job.group: f.started_at for f in simulation.outcomes.values()}
    assert started["short"] < started["long"]


def test_accuracy_sets_recorded_waits_beside_those_of_the_unchanged_replay():
    found = compared(a_scenario(), EIGHT_SLICES).accuracy
    assert (found.jobs, found.recorded_mean_seconds) == (8, round(28 / 8))
    assert found.replayed_mean_seconds == HOUR // 2


@pytest.mark.slow
def test_every_job_is_told_once_whatever_the_policy():
    jobs = [a_recorded(n, 600 + n, at=60 * n, gpus=1 + n % 3) for n in range(30)]
    for backfill in BackfillMode:
        found = outcome(a_scenario(backfill=backfill), a_window(*jobs))
        assert (found.jobs, found.ended, found.refused, found.left_waiting) == (30, 20, 10, 0)
        assert sum(found.held_for.values()) == pytest.approx(found.waits.mean_seconds * 20, abs=10)


def test_the_same_question_has_the_same_answer():
    jobs = [a_recorded(n, 600 + n, at=60 * n, mig="2g.35gb") for n in range(40)]
    scenario = a_scenario(owners=[an_owner(), an_owner("p", "u")])
    once = compared(scenario, a_window(*jobs))
    again = compared(scenario, a_window(*reversed(jobs)))
    assert json.dumps(asdict(once)) == json.dumps(asdict(again))
    assert not any(once.differences.values())


def test_more_jobs_than_can_be_replayed_are_refused_before_anything_is():
    window = a_window(*(a_recorded(0),) * (MAX_JOBS + 1))
    with pytest.raises(ChangeRefusedError, match="at most 20000 are replayed"):
        compare(a_scenario(), window, ())


def test_progress_goes_to_the_end_even_where_jobs_stay():
    told = []
    stays = a_recorded(2, gpus=1, after=("3",))
    compare(a_scenario(), a_window(a_recorded(1), stays), (), lambda *at: told.append(at))
    assert told == [(1, 4), (2, 4), (4, 4)]


HELD = {"was_running": True, "is_counted": False, "at": -HOUR}


@pytest.mark.parametrize(
    ("change", "least"),
    [
        ({"project": "p", "units": 3 * 56_000 - 1}, "p had 3 GPUs"),
        ({"project": "p", "units": 56_000, "user": "v"}, "p/v had 2 GPUs"),
        ({"project": "p", "units": 56_000, "model": "H200"}, "p:H200 had 2 GPUs"),
    ],
)
def test_a_quota_below_what_ran_when_the_time_began_is_refused_with_the_least(change, least):
    mine = a_recorded(1, gpus=1, **HELD)
    other = a_recorded(2, gpus=1, replicas=2, user="v", models=("H200",), **HELD)
    scenario = a_scenario(a_node(a_gpu(), a_gpu(), a_gpu()), quotas=[a_quota(gpus=4)])
    changes = read_changes([{"kind": "quota"} | change])
    with pytest.raises(
        ChangeRefusedError, match=f"{least} allocated when this time began"
    ) as refused:
        compare(scenario, a_window(mine, other), changes)
    assert refused.value.field == "0.units"


def test_a_quota_of_just_what_ran_and_one_below_what_runs_later_are_answered():
    window = a_window(a_recorded(1, gpus=1, **HELD), a_recorded(2, gpus=2))
    found = compared(
        a_scenario(quotas=[a_quota(gpus=2)]),
        window,
        *read_changes([{"kind": "quota", "project": "p", "units": 56_000}]),
    )
    assert found.changed.refused == 1
