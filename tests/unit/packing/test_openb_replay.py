"""The openb replay on traces of a few lines: what it prints, and what it says of broken files."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from scheduler.core.packing.fragmentation import typical_kinds
from scheduler.core.packing.kinds import NodeRoom
from scheduler.replay.__main__ import main
from scheduler.replay.openb_data import inflation_arrivals, read_cluster, read_pods
from scheduler.replay.placement_events import churn
from scheduler.replay.placement_record import OverbookedError, PlacementDecisions, replay_decisions
from tests.support.examples import first_quick

NODES = "sn,cpu_milli,memory_mib,gpu,model\nb,32000,65536,4,T4\na,32000,65536,2,P100\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "p1,4000,1024,1,500,\np2,8000,1024,1,1000,P100\np3,1000,1024,0,0,\np4,8000,1024,2,1000,T4|A10\n"
)


@pytest.fixture
def files(tmp_path):
    def write(nodes=NODES, pods=PODS):
        (tmp_path / "nodes.csv").write_text(nodes)
        (tmp_path / "pods.csv").write_text(pods)
        return ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv")]

    return write


@pytest.fixture
def trace(files):
    _, nodes, _, pods = files()
    cluster = read_cluster(Path(nodes))
    return cluster, read_pods(Path(pods), cluster.models)


@pytest.mark.parametrize("policy", first_quick("tessera", "fgd", "bestfit", "packing", "random"))
def test_every_seed_is_one_json_object_and_the_last_is_their_mean(files, capsys, policy):
    arguments = ["openb", *files(), "--seeds", "1-3", "--policy", policy, "--load", "50,130"]
    assert main([*arguments, "--json"]) == 0

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["seed"] for row in rows] == [1, 2, 3, "mean"]
    for row in rows:
        assert row["policy"] == policy
        assert row["placements"] > 0 and row["seconds"] >= 0 and row["placements_per_s"] >= 0
        assert all(0 <= value <= 100 for value in row["allocation_pct"].values())


def test_the_table_for_people_names_the_policy_and_each_seed(files, capsys):
    assert main(["openb", *files(), "--seeds", "7,9", "--load", "100"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("tessera")
    assert [line.split()[0] for line in lines[2:]] == ["7", "9", "mean"]


def test_the_same_seed_gives_the_same_figures(files, capsys):
    def figures():
        assert main(["openb", *files(), "--seeds", "5", "--json"]) == 0
        row = json.loads(capsys.readouterr().out.splitlines()[0])
        return row["allocation_pct"], row["fragmented_pct"], row["placements"]

    assert figures() == figures()


@pytest.mark.parametrize(
    ("nodes", "pods", "sentence"),
    [
        ("", PODS, "has no column sn"),
        ("sn,cpu_milli,memory_mib,gpu,model\n", PODS, "a heading and no lines"),
        (NODES + "c,12,many,1,T4\n", PODS, "line 4: memory_mib is 'many'"),
        (NODES + "c,12,1,0,T4\n", PODS, "line 4: gpu is '0', not a whole number from 1"),
        (NODES + "c,12\n", PODS, "line 4: has fewer columns"),
        (NODES, PODS + "p5,1,1,1,1001,\n", "line 6: 1 GPUs of 1001 thousandths"),
        (NODES, PODS + "p5,1,1,2,500,\n", "line 6: 2 GPUs of 500 thousandths"),
        (NODES, PODS + "p5,-1,1,1,500,\n", "line 6: cpu_milli is '-1'"),
    ],
)
def test_a_broken_file_is_named_in_one_sentence(files, capsys, nodes, pods, sentence):
    assert main(["openb", *files(nodes, pods)]) == 2

    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_missing_file_and_a_broken_archive_are_named_too(files, capsys, tmp_path):
    arguments = files()
    assert main(["openb", *arguments[:3], str(tmp_path / "none.csv")]) == 2
    broken = tmp_path / "pods.csv.gz"
    broken.write_bytes(gzip.compress(PODS.encode())[:-9])
    assert main(["openb", *arguments[:3], str(broken)]) == 2

    first, second = capsys.readouterr().err.splitlines()
    assert "none.csv cannot be read" in first
    assert "pods.csv.gz cannot be read" in second


@pytest.mark.parametrize("option", [["--seeds", "4-"], ["--load", "131"], ["--churn", "no"]])
def test_an_option_out_of_range_is_refused(files, capsys, option):
    with pytest.raises(SystemExit) as stopped:
        main(["openb", *files(), *option])

    assert stopped.value.code == 2


def test_the_list_is_inflated_to_just_below_1_3_times_the_cluster(trace):
    cluster, pods = trace
    arrivals, order = inflation_arrivals(pods, cluster, seed=3)

    total = pods.milli[arrivals].sum()
    assert sorted(arrivals[: len(pods.kind)]) == list(range(len(pods.kind)))
    assert 1.3 * cluster.gpus * 1_000 - 1_000 < total <= 1.3 * cluster.gpus * 1_000 + 1_000
    assert sorted(order) == [0, 1]


def test_a_list_that_is_too_large_loses_pods_at_random(files):
    _, nodes, _, pods = files(pods=PODS + "".join(f"q{i},1,1,1,1000,\n" for i in range(30)))
    cluster = read_cluster(Path(nodes))
    many = read_pods(Path(pods), cluster.models)

    arrivals, _ = inflation_arrivals(many, cluster, seed=3)

    assert len(set(arrivals)) == len(arrivals) < len(many.kind)
    assert many.milli[arrivals].sum() <= 1.3 * cluster.gpus * 1_000


def test_everyone_who_leaves_came_before_and_leaves_once(trace):
    cluster, pods = trace
    requests, events, counted = churn(pods, cluster.gpus, 90, seed=1, arrivals=500)

    assert [e for e in events if e >= 0] == list(range(500)) and len(requests) == 500
    left = [-e - 1 for e in events if e < 0]
    assert len(set(left)) == len(left)
    at = {int(e): i for i, e in enumerate(events)}
    assert all(at[request] < at[-request - 1] for request in left)
    assert 0 < counted < len(events)


@pytest.mark.slow
def test_with_churn_what_was_refused_is_told(files, capsys):
    many = PODS + "".join(f"q{i},100,1,1,1000,\n" for i in range(30))
    arguments = ["openb", *files(pods=many), "--seeds", "1", "--churn", "200", "--json"]
    assert main(arguments) == 0

    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert row["allocation_pct"]["200"] > 60
    assert 30 < row["refused_pct"]["200"] < 75


@pytest.mark.parametrize(
    ("node", "gpus"), [([0, 0], [1, 1]), ([0, 0], [1, 2]), ([0, -1], [0, 0]), ([1, -1], [1, 0])]
)
def test_a_decision_that_takes_what_is_not_free_is_found_out(files, node, gpus):
    """Two pods of one P100 each on a node with one GPU and CPU for one; node 1 is another model."""
    _, nodes, _, pods = files(pods="name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
                              "p1,4000,1,1,1000,P100\n")  # fmt: skip
    cluster = read_cluster(Path(nodes))
    one = read_pods(Path(pods), cluster.models)
    rooms = (
        NodeRoom(cluster.models.index("P100"), 4_000, 10, (1_000, 1_000)),
        NodeRoom(cluster.models.index("T4"), 4_000, 10, (1_000,)),
    )
    decisions = PlacementDecisions(np.array(node), np.array(gpus), 0.0)

    with pytest.raises(OverbookedError):
        replay_decisions(
            np.arange(2), np.zeros(2, np.int64), one, rooms, decisions, typical_kinds(one.mix())
        )
