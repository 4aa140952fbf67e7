"""`replay mig`: the planner's own choices, an exact bound, and clear words for bad input."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ortools.sat.python import cp_model

from agents.contract.boards import known_boards
from scheduler.core.geometry.layout_graph import layout_graph
from scheduler.core.geometry.placement_value import (
    READY_BONUS,
    layout_values,
    min_empty_gpus,
    profile_weights,
)
from scheduler.core.model.policy import OrderMode
from scheduler.core.model.snapshot import Demand, DemandMix, DeviceRequest
from scheduler.replay import mig
from scheduler.replay.__main__ import main
from scheduler.replay.mig_baselines import can_repack, free_repacking, repacking_order
from scheduler.replay.mig_choices import cheapest, layout_tables, room_by_move, room_by_moves
from scheduler.replay.mig_moves import DEPTH, best_joint_plan, move_tables, next_request_value
from scheduler.replay.mig_simulation import churn, inflation, run, sizes
from tests.support.snapshots import a_cluster, a_gpu, a_job, a_node, a_slice, devices, plan_of

pytestmark = pytest.mark.slow

KEY = "H100-80GB"
BOARD = known_boards()[KEY]
HERE = layout_graph(BOARD)
MIXES = ("uniform", "small", "large", "bimodal")


def weights(here, name):
    named = mig.named_mix(here, name)
    found = np.array([named.get(profile, 0.0) for profile in here.profile_names])
    return found / found.sum()


def table(here, name):
    return layout_values(here.board, profile_weights(mig.named_mix(here, name)))


def most_slices(here, wanted, gpus):
    """The most memory slices of `wanted` (by profile) that fit on the GPUs: an integer programme
    over the layouts that a board can have."""
    model = cp_model.CpModel()
    layouts = np.unique(here.profile_counts[:, wanted > 0], axis=0)
    used = [model.new_int_var(0, gpus, f"l{i}") for i in range(len(layouts))]
    model.add(sum(used) <= gpus)
    served = []
    for column, (size, number) in enumerate(
        zip(sizes(here)[wanted > 0], wanted[wanted > 0], strict=True)
    ):
        taken = model.new_int_var(0, int(number), f"p{column}")
        model.add(taken <= sum(int(n) * u for n, u in zip(layouts[:, column], used, strict=True)))
        served.append(int(size) * taken)
    model.maximize(sum(served))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


@pytest.mark.parametrize("key", [KEY, "A30-24GB", "RTX-PRO-6000-96GB"])
def test_free_repacking_says_exactly_what_fits(key):
    here = layout_graph(known_boards()[key])
    random = np.random.default_rng(1)
    plain = [name in mig.named_mix(here, "uniform") for name in here.profile_names]
    answers = set()
    for _ in range(60):
        gpus = int(random.integers(1, 5))
        wanted = np.where(plain, random.integers(0, 1 + 2 * gpus, len(plain)), 0).astype(np.int32)
        wanted = (wanted * (random.random(len(plain)) < 0.6)).astype(np.int32)
        if not wanted.any():
            continue
        fits = most_slices(here, wanted, gpus) == int(wanted @ sizes(here))
        assert (
            can_repack(wanted, gpus, here.with_instance, here.first_spots, *repacking_order(here))
            == fits
        )
        answers.add(fits)
    assert answers == {True, False}


def test_the_replay_places_where_the_planner_places():
    """Twenty requests on six GPUs of one node: GPU and start, one after the other."""
    names = [name for name in HERE.profile_names if "+" not in name]
    mix = DemandMix(tuple(Demand(DeviceRequest(mig=name), 1, 1, 1) for name in names))
    known = table(HERE, "uniform")
    for seed in range(3):
        held = [[] for _ in range(6)]
        lay = np.zeros(6, np.int32)
        for kind in inflation(HERE, weights(HERE, "uniform"), 6, seed).profile[:20]:
            gpus = [a_gpu(*slices, board=KEY) for slices in held]
            job = a_job(mig=HERE.profile_names[kind])
            found = plan_of(replace(a_cluster(a_node(*gpus), jobs=[job]), mix=mix))
            edges = (HERE.first_spots[kind], HERE.first_spots[kind + 1])
            falls = (
                known.losses_when_roomy if (lay == 0).sum() >= min_empty_gpus(6) else known.losses
            )
            gpu, spot, _ = cheapest(
                lay, np.zeros_like(HERE.with_instance[:6]), falls, *edges, READY_BONUS
            )
            if gpu < 0:
                assert not found.placements
                continue
            place = HERE.spots[spot]
            assert devices(found) == [(f"n1/{gpu}", place.profile, place.start)]
            held[gpu].append(a_slice(place.profile, place.start, board=KEY))
            lay[gpu] = HERE.with_instance[lay[gpu], spot]


@pytest.mark.slow
def test_small_worlds_come_within_one_percent_of_what_free_repacking_takes():
    """Six GPUs, twenty requests in order. Against free repacking, whose answers the test above
    proves with the integer programme: 0.6 % below in the mean. Against the programme that knows all
    twenty beforehand and leaves out whom it likes: never above it, 2.7 % below in the mean."""
    behind, behind_hindsight = [], []
    for name in MIXES:
        for seed in range(10):
            stream = inflation(HERE, weights(HERE, name), 6, seed)
            stream = replace(stream, profile=stream.profile[:20], events=stream.events[:20])
            told = run(HERE, stream, 6, mig.placement_rule("tessera", HERE, weights(HERE, name)))
            best = free_repacking(HERE, stream, 6)
            wanted = np.bincount(stream.profile, minlength=len(HERE.profile_names)).astype(np.int32)
            bound = most_slices(HERE, wanted, 6)
            served = told.allocated_pct / 100 * 6 * BOARD.memory_slices
            assert served <= bound + 1e-6
            behind.append(1 - told.accepted_pct / best.accepted_pct)
            behind_hindsight.append(1 - served / bound)
    assert np.mean(behind) < 0.01
    assert np.mean(behind_hindsight) < 0.03


def one_pass(name, profile):
    """The memory slices that one planning pass gives those who wait, in this order, on six GPUs."""
    named = mig.named_mix(HERE, name)
    asked = {key: round(2 * weight) for key, weight in named.items()}
    mix = DemandMix(tuple(Demand(DeviceRequest(mig=key), 1, 1, n) for key, n in asked.items()))
    jobs = [
        a_job(f"{i:02}", mig=HERE.profile_names[kind], queued_at=i)
        for i, kind in enumerate(profile)
    ]
    node = a_node(*(a_gpu(board=KEY) for _ in range(6)))
    found = plan_of(replace(a_cluster(node, jobs=jobs), mix=mix), order=OrderMode.FIFO)
    given = (d for p in found.placements for replica in p.replicas for d in replica.devices)
    return sum(device.size for device in given)


@pytest.mark.slow
def test_one_pass_over_twenty_who_wait_comes_close_to_the_integer_programme():
    """The programme may leave out whom it likes. Where larger ones queue first, the pass gives as
    much in every world; in the order of arrival 3.1 % less in the mean, which that order costs."""
    sorted_behind, first_come_behind = [], []
    for name in MIXES:
        for seed in range(10):
            profile = inflation(HERE, weights(HERE, name), 6, seed).profile[:20]
            wanted = np.bincount(profile, minlength=len(HERE.profile_names)).astype(np.int32)
            bound = most_slices(HERE, wanted, 6)
            larger_first = profile[np.argsort(-sizes(HERE)[profile], kind="stable")]
            given = [one_pass(name, larger_first), one_pass(name, profile)]
            assert max(given) <= bound
            sorted_behind.append(1 - given[0] / bound)
            first_come_behind.append(1 - given[1] / bound)
    assert np.mean(sorted_behind) < 0.005
    assert np.mean(first_come_behind) < 0.04


@pytest.mark.slow
def test_tessera_accepts_more_than_first_fit_and_a_move_more_again():
    drawn = weights(HERE, "bimodal")
    streams = [churn(HERE, drawn, 20, 1.0, seed) for seed in range(3)]

    def accepted(policy, *moving):
        rule = mig.placement_rule(policy, HERE, drawn, *moving)
        return np.mean([run(HERE, s, 20, rule).accepted_pct for s in streams])

    still = accepted("tessera")
    assert accepted("firstfit") + 2 < still
    lazy = accepted("tessera", 1, np.inf)
    assert still + 2 < lazy < accepted("tessera", 1)


@pytest.mark.slow
def test_with_one_move_a_placement_as_much_is_taken_as_by_packing_all_anew():
    """Half a point less at most, in the mean of the seeds: the aim."""
    for name in ("large", "bimodal"):
        drawn = weights(HERE, name)
        streams = [churn(HERE, drawn, 20, 1.0, seed) for seed in range(4)]
        rule = mig.placement_rule("tessera", HERE, drawn, 1)
        ours = np.mean([run(HERE, s, 20, rule).accepted_pct for s in streams])
        best = np.mean([free_repacking(HERE, s, 20).accepted_pct for s in streams])
        assert ours > best - 0.5


@pytest.mark.slow
@pytest.mark.parametrize("moving", [(np.inf,), ()], ids=["where nothing fits", "together"])
def test_nothing_moves_unless_moves_are_allowed_and_then_once_a_placement_at_most(moving):
    drawn = weights(HERE, "small")
    stream = churn(HERE, drawn, 5, 1.0, 1)
    assert run(HERE, stream, 5, mig.placement_rule("tessera", HERE, drawn, 0, *moving)).moves == 0
    one = run(HERE, stream, 5, mig.placement_rule("tessera", HERE, drawn, 1, *moving))
    assert 0 < one.moves <= one.accepted


@pytest.mark.slow
def test_a_policy_without_a_table_of_its_own_moves_where_nothing_fits():
    drawn = weights(HERE, "small")
    stream = churn(HERE, drawn, 5, 1.0, 1)
    still, moving = (
        run(HERE, stream, 5, mig.placement_rule("leastfrag", HERE, drawn, n)) for n in (0, 2)
    )
    assert (still.moves, still.accepted < moving.accepted) == (0, True)


def place(name, start):
    return next(p for p in HERE.spots if (p.profile, p.start) == (name, start))


def standing(*gpus):
    """(layouts, holders): of each GPU what stands there; every instance may be moved."""
    lay = np.array([HERE.layout_number(here) for here in gpus], dtype=np.int32)
    return lay, np.array([HERE.without_instance[number] >= 0 for number in lay], dtype=np.int32)


def moves_for(choose, gpus, profile, *more):
    lay, holder = standing(*gpus)
    falls, kind = layout_values(BOARD).losses, HERE.profile_names.index(profile)
    return choose(lay, holder, layout_tables(HERE), falls, kind, *more)


def test_room_is_made_by_the_move_that_costs_least():
    small, other = place("1g.10gb", 2), place("1g.10gb", 4)
    gpus = [(small, place("3g.40gb", 4)), (place("4g.40gb", 0), other)]
    gpu, old, new, cost = moves_for(room_by_move, gpus, "4g.40gb")
    assert (gpu, HERE.spots[old], HERE.spots[new].start) == (0, small, 0)
    assert np.isfinite(cost)
    full = [(place("3g.40gb", 0), place("3g.40gb", 4))] * 2
    assert moves_for(room_by_move, full, "1g.10gb")[0] == -1


def test_two_moves_are_made_only_where_two_are_allowed():
    two = (place("1g.10gb", 0), place("1g.10gb", 2))
    gpus = [(*two, place("3g.40gb", 4)), (place("4g.40gb", 0),)]
    assert moves_for(room_by_move, gpus, "4g.40gb")[0] == -1
    rows, _ = moves_for(room_by_moves, gpus, "4g.40gb", 2)
    assert sorted(HERE.spots[spot].start for spot in rows[:-1, 1]) == [0, 2]
    assert (rows[:-1, 2] == 1).all()


def planned(gpus, profile, gain=0.001):
    """Rows (profile, GPU, start, GPU, start) of the joint plan; -1 where the new one comes from."""
    rows = moves_for(
        best_joint_plan,
        gpus,
        profile,
        move_tables(HERE, weights(HERE, "uniform")),
        np.array(DEPTH),
        gain,
    )
    found = []
    for gpu, spot, to_gpu, to_spot in rows.tolist():
        start = HERE.spots[to_spot].start if to_gpu >= 0 else -1
        found.append((HERE.spots[spot].profile, gpu, HERE.spots[spot].start, to_gpu, start))
    return found


def test_a_move_is_chosen_with_the_place_so_that_the_largest_finds_an_empty_gpu():
    """Two GPUs with one small slice each: it joins the other one, or lets it join."""
    lone = place("1g.10gb", 0)
    first, last = planned([(lone,), (place("4g.40gb", 0),), (place("3g.40gb", 4), lone)], "2g.20gb")
    assert (first[:2], first[3] in (1, 2)) == (("1g.10gb", 0), True)
    assert last[1] in (1, 2)
    assert len(planned([(lone,), (place("4g.40gb", 0),)], "2g.20gb", gain=np.inf)) == 1


def test_what_comes_next_counts_less_the_more_has_to_move_for_it():
    only = np.array([name == "4g.40gb" for name in HERE.profile_names], dtype=float)
    reaches, depth = move_tables(HERE, only), np.array(DEPTH)
    three, four = place("3g.40gb", 4), place("4g.40gb", 0)
    spare = (four,)
    ones = [place("1g.10gb", start) for start in range(4)]

    def worth(*gpus):
        return next_request_value(standing(*gpus)[0], reaches, depth) / reaches.worth.max()

    found = [worth((*ones[:many], three), spare) for many in range(5)]
    assert found == pytest.approx([*DEPTH, 0.0])
    assert worth((*ones[:1], three), (four, three)) == 0.0


def replayed(capsys, *options):
    code = main(["mig", "--gpus", "4", "--json", *options])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


def test_each_seed_gets_a_line_and_the_mean_the_last(capsys):
    code, rows, _ = replayed(capsys, "--seeds", "0,2-3", "--bound")
    assert (code, [row["seed"] for row in rows]) == (0, [0, 2, 3, "mean"])
    mean = sum(row["accepted_pct"] for row in rows[:3]) / 3
    assert rows[-1]["accepted_pct"] == pytest.approx(mean, abs=1e-3)
    assert all(row["accepted_pct"] <= 100 and "free_repacking_pct" in row for row in rows)
    assert replayed(capsys, "--seeds", "0,2-3", "--bound")[1] == rows


def test_a_mix_can_be_a_file_of_weights_or_of_pods(capsys, tmp_path: Path):
    weighed = tmp_path / "mix.json"
    weighed.write_text('{"1g.10gb": 3, "7g.80gb": 1}')
    assert replayed(capsys, "--mix", str(weighed))[0] == 0
    pods = tmp_path / "pods.csv.gz"
    text = "name,num_gpu,gpu_milli\na,1,100\nb,1,500\nc,1,1000\nd,0,0\n"
    pods.write_bytes(gzip.compress(text.encode()))
    assert replayed(capsys, "--mix", str(pods))[0] == 0
    assert mig._of_file(HERE, pods) == {"1g.10gb": 1, "4g.40gb": 1}


def test_bad_input_is_refused_in_one_sentence(capsys, tmp_path: Path):
    wrong = tmp_path / "wrong.json"
    for text in ("[1]", "{", '{"9g.9gb": 1}', '{"1g.10gb": -1}', '{"1g.10gb": "x"}', "{}"):
        wrong.write_text(text)
        assert refused(capsys, "--mix", str(wrong))
    for options in (
        ("--board", "L40S-48GB"),
        ("--mix", "none-such"),
        ("--seeds", "9-0"),
        ("--seeds", "a"),
        ("--gpus", "0"),
        ("--moves", "-1"),
        ("--load", "nan"),
        ("--move-gain", "nan"),
    ):
        assert refused(capsys, *options)


def refused(capsys, *options):
    code, rows, err = replayed(capsys, *options)
    return code == 2 and not rows and err.startswith("replay mig: ") and err.count("\n") == 1
