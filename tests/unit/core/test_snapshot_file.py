"""A planning pass is saved as JSON and decides the same when it is read again."""

import io
import json
from dataclasses import replace
from itertools import combinations

import pytest

from agents.contract.topology import GpuPair, NodeTopology
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.links import links_of
from scheduler.core.model.policy import OrderMode, Policy
from scheduler.core.model.snapshot import BudgetView, DemandMix, PastRun, RunningJob
from scheduler.core.plan import plan
from scheduler.core.snapshot_file import read_pass, write_pass
from scheduler.replay.__main__ import main
from tests.support.snapshots import (
    NOW,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_quota,
    a_slice,
    as_bytes,
    idle,
)

PAIRS = tuple(GpuPair(a, b, "NODE", 0, False, 25_000) for a, b in combinations(range(3), 2))
LINKS = links_of(NodeTopology(gpus=(0, 1, 2), pairs=PAIRS))
POLICY = Policy(order=OrderMode.FIFO, hysteresis=2.0)


def a_pass():
    node = a_node(a_gpu(a_slice()), a_gpu(idle()), a_gpu(), links=LINKS, labels=("rack=a",))
    jobs = [a_job("7", mig="2g.35gb"), a_job("8", gpus=2), a_job("9", gpus=64)]
    return a_cluster(node, jobs=jobs, quotas=[a_quota(gpus=8)])


def test_what_is_read_is_what_was_saved_and_decides_the_same():
    text = write_pass(a_pass(), POLICY)
    snapshot, policy = read_pass(text)
    assert (snapshot, policy) == (a_pass(), POLICY)
    assert as_bytes(plan(snapshot, policy)) == as_bytes(plan(a_pass(), POLICY))
    assert write_pass(snapshot, policy) == text


def test_a_pass_of_the_first_format_is_read_too():
    snapshot = replace(
        a_running_pass(),
        history=(PastRun("p", "u", "g", 1, 60, True, 50, True, NOW - 9),),
        budgets=(BudgetView("p", "", 9, 8, 7, NOW + 9),),
        jobs=(a_job("2", gpus=1, hold_reason="later"),),
        mix=DemandMix(departures_per_start=0.5),
    )
    text = write_pass(snapshot, POLICY).replace("pass-2", "pass-1")
    for new, old in [
        ("allocated", "held"),
        ("hold_reason", "held_because"),
        ("reserved_unit_seconds", "held_unit_seconds"),
        ("history", "past"),
        ("departures_per_start", "departing"),
        ("unavailable_reason", "unavailable_because"),
    ]:
        assert f'"{new}":' in text
        text = text.replace(f'"{new}":', f'"{old}":')
    assert read_pass(text) == (snapshot, POLICY)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not a saved planning pass"),
        ('{"format": "tessera-planning-pass-0"}', "tessera-planning-pass-2"),
        (write_pass(a_pass(), POLICY).replace('"now":', '"then":'), "snapshot"),
        (write_pass(a_pass(), POLICY).replace('"fifo"', '"lifo"'), "policy.order"),
    ],
)
def test_what_is_no_pass_is_refused_with_what_is_wrong(text, said):
    with pytest.raises(ValueError, match=said):
        read_pass(text)


def test_the_replay_of_a_pass_tells_places_and_reasons(tmp_path, capsys):
    file = tmp_path / "pass.json"
    file.write_text(write_pass(a_pass(), Policy()))
    assert main(["snapshot", str(file)]) == 0
    told = capsys.readouterr().out
    assert "J-7 job-7 (p/u) starts: " in told
    assert "n1, GPU 1 (H200-141GB), 2g.35gb at 0 (ready)" in told
    assert "J-9 job-9 (p/u) waits for 1m 40s [impossible]: " in told
    assert main(["snapshot", str(file), "--job", "J-9", "--json"]) == 0
    told = capsys.readouterr().out
    assert '"code": "impossible"' in told
    assert "J-7" not in told


def test_a_file_that_cannot_be_read_ends_with_a_sentence_and_2(tmp_path, capsys):
    assert main(["snapshot", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err


@pytest.fixture
def replay_lines(tmp_path, capsys):
    """What the replay of a pass says, line by line."""

    def said(snapshot, *options, policy=POLICY):
        file = tmp_path / "pass.json"
        file.write_text(write_pass(snapshot, policy))
        assert main(["snapshot", str(file), *options]) == 0
        return capsys.readouterr().out.splitlines()

    return said


def test_a_pass_says_first_what_was_there_and_by_which_policy(replay_lines):
    lines = replay_lines(a_pass())
    assert lines[0] == (
        "As of 1970-01-12 13:46:40 UTC: 1 of 1 nodes with 3 GPUs, 3 jobs wait, 0 run"
    )
    assert lines[1] == "Policy: order fifo, backfill easy, preemption priority"


def test_a_pass_without_a_queue_says_that_nothing_is_decided(replay_lines):
    assert replay_lines(a_cluster(a_node(a_gpu())))[2:] == ["Nothing to decide: no job waits."]


def test_a_job_that_runs_is_told_with_its_devices_and_its_limit(replay_lines):
    lines = replay_lines(a_running_pass(), "--job", "J-1")
    assert (
        lines[2] == "J-1 job-1 (p/u) holds devices, for 10m 00s so far; its limit is over in 3h 50m"
    )
    assert lines[3] == "   replica 0: n1, GPU 0 (H200-141GB), whole (ready)"
    assert len(lines) == 4


def test_evidence_is_told_of_one_job_with_times_as_people_read_them(replay_lines):
    lines = replay_lines(a_running_pass(), "--job", "2")
    assert lines[2] == "J-2 job-2 (p/u) is sure to start in 3h 50m at the latest"
    assert lines[4].startswith("1. J-2 job-2 (p/u) waits for 1m 40s [resources]: 1 ")
    assert "   needed: 1" in lines
    assert "   first_ends_at: 1970-01-12 17:36:40 UTC" in lines


def a_running_pass():
    """One GPU, held by J-1 for ten minutes, for which J-2 waits."""
    held = a_slice("")
    node = a_node(a_gpu(held))
    slice = node.gpus[0].slices[0]
    place = DevicePlacement(
        node.gpus[0].id, slice.kind, "", 0, slice.size, 56_000, 1, slice=slice.id
    )
    run = RunningJob(a_job("1", gpus=1), (ReplicaPlacement(0, node.id, (place,)),), NOW - 600)
    return replace(a_cluster(node, jobs=[a_job("2", gpus=1)]), running=(run,))


def test_the_fair_order_knows_what_the_planner_knew_of_run_times(replay_lines):
    """Both ask for the same; runs like the second's were short. By limits J-1 would be first."""
    past = [
        PastRun("p", "u", group, 1, 4 * 3_600, False, ran, True, NOW - 9_000 + number)
        for number in range(40)
        for group, ran in [("long", 10_000), ("short", 60)]
    ]
    jobs = [
        a_job(id, gpus=1, group=group, limit_is_chosen=False)
        for id, group in [("1", "long"), ("2", "short")]
    ]
    snapshot = replace(a_cluster(a_node(a_gpu()), jobs=jobs), history=tuple(past))
    lines = replay_lines(snapshot, policy=Policy())
    assert lines[2].startswith("J-2 job-2 (p/u) starts")


def test_a_job_that_the_pass_does_not_know_is_refused(tmp_path, capsys):
    file = tmp_path / "pass.json"
    file.write_text(write_pass(a_pass(), POLICY))
    assert main(["snapshot", str(file), "--job", "J-99"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith("replay snapshot: --job J-99: no such job")) == ("", True)


def test_a_pass_is_read_from_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(write_pass(a_pass(), POLICY)))
    assert main(["snapshot", "-", "--json"]) == 0
    assert [place["job"] for place in json.loads(capsys.readouterr().out)["places"]] == ["7"]
