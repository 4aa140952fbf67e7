"""What an admin may ask about: each change as JSON, as a word, and refused with one sentence."""

import pytest

from scheduler.core.model.policy import BackfillMode
from scheduler.what_if.changes import PolicySet, QuotaSet
from scheduler.what_if.comparison import apply_changes
from scheduler.what_if.errors import ChangeRefusedError
from scheduler.what_if.json_format import (
    KINDS,
    parse_layout,
    parse_mode,
    parse_nodes,
    parse_policy,
    parse_quota,
    read_changes,
    write_change,
)
from tests.support.snapshots import a_gpu, a_node, a_quota
from tests.unit.what_if.scenarios import a_scenario

WORDS = [
    (parse_quota, "vision=16", {"kind": "quota", "project": "vision", "units": 896_000}),
    (
        parse_quota,
        "vision/alice:H200=0.5",
        {"kind": "quota", "project": "vision", "units": 28_000, "user": "alice", "model": "H200"},
    ),
    (parse_nodes, "2:node-a", {"kind": "nodes", "count": 2, "like": "node-a"}),
    (
        parse_layout,
        "node-a/0=3g.71gb+1g.18gb",
        {"kind": "layout", "node": "node-a", "gpu": 0, "profiles": ["3g.71gb", "1g.18gb"]},
    ),
    (parse_mode, "H200=mig", {"kind": "mode", "model": "H200", "mode": "mig"}),
    (
        parse_policy,
        "backfill=conservative",
        {"kind": "policy", "name": "backfill", "value": "conservative"},
    ),
    (parse_policy, "moves=4", {"kind": "policy", "name": "moves", "value": 4}),
    (parse_policy, "hysteresis=2.5", {"kind": "policy", "name": "hysteresis", "value": 2.5}),
    (parse_policy, "merge=off", {"kind": "policy", "name": "merge", "value": False}),
    (parse_policy, "warm=true", {"kind": "policy", "name": "warm", "value": True}),
    (parse_policy, "preemption=off", {"kind": "policy", "name": "preemption", "value": "off"}),
]


@pytest.mark.parametrize(("read", "word", "stored"), WORDS, ids=[w[1] for w in WORDS])
def test_a_word_and_its_json_are_the_same_change(read, word, stored):
    (change,) = read_changes([stored])
    assert read(word) == change
    assert read_changes([write_change(change)]) == (change,)


def test_every_kind_of_change_says_itself_in_words():
    told = [str(read(word)) for read, word, _ in WORDS]
    assert len(KINDS) == 6
    assert told[:4] == [
        "vision may hold 16 GPUs",
        "alice in vision may hold 0.50 GPUs of H200",
        "2 more like node-a",
        "GPU 0 of node-a pinned as 3g.71gb + 1g.18gb",
    ]


@pytest.mark.parametrize(
    ("stored", "field", "sentence"),
    [
        (7, "0", "object with a kind"),
        ({"kind": "magic"}, "0.kind", "one of quota, nodes"),
        ({"kind": "quota", "project": "p"}, "0.units", "needs units"),
        ({"kind": "quota", "project": "p", "units": True}, "0.units", "whole number"),
        ({"kind": "quota", "project": 3, "units": 1}, "0.project", "must be a string"),
        ({"kind": "quota", "project": "p", "units": 1, "x": 1}, "0.x", "has no x"),
        ({"kind": "layout", "node": "n", "gpu": 0, "profiles": "1g"}, "0.profiles", "list"),
        ({"kind": "policy", "name": "order", "value": []}, "0.value", "string or a number"),
    ],
)
def test_a_change_of_the_wrong_form_is_refused_with_its_field(stored, field, sentence):
    with pytest.raises(ChangeRefusedError, match=sentence) as refused:
        read_changes([stored])
    assert refused.value.field == field


def test_too_many_changes_are_refused():
    with pytest.raises(ChangeRefusedError, match="at most 50"):
        read_changes([{}] * 51)


@pytest.mark.parametrize(
    ("stored", "sentence"),
    [
        ({"kind": "quota", "project": "nobody", "units": 1}, "no project nobody. There is p"),
        ({"kind": "quota", "project": "p", "units": -1}, "0 to"),
        ({"kind": "nodes", "count": 0, "like": "n1"}, "1 to 1000"),
        ({"kind": "nodes", "count": 1, "like": "zz"}, "no node zz"),
        ({"kind": "without", "node": "zz"}, "no node zz. There is n1"),
        (
            {"kind": "layout", "node": "n1", "gpu": 9, "profiles": ["1g.18gb"]},
            "no GPU 9. There are 0, 1",
        ),
        ({"kind": "layout", "node": "n1", "gpu": 0, "profiles": []}, "Name the profiles"),
        ({"kind": "layout", "node": "n1", "gpu": 0, "profiles": ["9g"]}, "no profile 9g"),
        (
            {"kind": "layout", "node": "n1", "gpu": 0, "profiles": ["4g.71gb", "4g.71gb"]},
            "do not fit",
        ),
        ({"kind": "layout", "node": "n1", "gpu": 1, "profiles": ["1g.18gb"]}, "has no MIG"),
        ({"kind": "mode", "model": "B9", "mode": "mig"}, "no GPU of B9 here. There are H200, L40S"),
        ({"kind": "mode", "model": "H200", "mode": "x"}, "A mode is one of"),
        ({"kind": "mode", "model": "L40S", "mode": "mig"}, "L40S has no MIG"),
        (
            {"kind": "policy", "name": "magic", "value": 1},
            "no option 'magic'. There are merge, order",
        ),
        ({"kind": "policy", "name": "order", "value": "x"}, "order is one of fair"),
        ({"kind": "policy", "name": "merge", "value": 1}, "true or false"),
        ({"kind": "policy", "name": "moves", "value": 1.5}, "whole number"),
        ({"kind": "policy", "name": "hysteresis", "value": 0}, "from 1"),
        ({"kind": "policy", "name": "hysteresis", "value": float("nan")}, "from 1"),
    ],
)
def test_a_change_that_does_not_fit_the_cluster_is_refused(stored, sentence):
    scenario = a_scenario(a_node(a_gpu(), a_gpu(board="L40S-48GB")), quotas=[a_quota(gpus=1)])
    with pytest.raises(ChangeRefusedError, match=sentence):
        apply_changes(scenario, read_changes([stored]))


def test_of_many_names_some_are_told():
    scenario = a_scenario(*(a_node(a_gpu(), name=f"n{number:02}") for number in range(30)))
    with pytest.raises(ChangeRefusedError) as refused:
        apply_changes(scenario, read_changes([{"kind": "without", "node": "zz"}]))
    assert refused.value.sentence.endswith("n18, n19 and 10 more")


@pytest.mark.parametrize(
    ("read", "word"),
    [
        (parse_quota, "vision"),
        (parse_quota, "=3"),
        (parse_quota, "vision=many"),
        (parse_quota, "vision=1/0"),
        (parse_quota, "vision=0.00001"),
        # 10 to the power of this would take minutes and all of the memory.
        (parse_quota, "vision=1e99999999"),
        (parse_nodes, "node-a"),
        (parse_nodes, "x:node-a"),
        (parse_layout, "node-a=1g"),
        (parse_mode, "mig"),
        (parse_policy, "easy"),
    ],
)
def test_a_word_that_cannot_be_read_is_refused(read, word):
    with pytest.raises(ChangeRefusedError):
        read(word)


def test_changes_follow_each_other_and_leave_the_first_setting_alone():
    scenario = a_scenario(quotas=[a_quota(gpus=1)])
    steps = [
        {"kind": "nodes", "count": 2, "like": "n1"},
        {"kind": "without", "node": "n1+1"},
        {"kind": "nodes", "count": 1, "like": "n1"},
    ]
    found = apply_changes(scenario, read_changes(steps))
    assert [node.name for node in found.nodes] == ["n1", "n1+2", "n1+1"]
    ids = [gpu.id for node in found.nodes for gpu in node.gpus]
    assert len(set(ids)) == len(ids) == 6
    assert len(scenario.nodes) == 1


def test_a_quota_that_was_not_there_is_made_and_one_that_was_keeps_what_it_borrows():
    scenario = a_scenario(quotas=[a_quota(gpus=1)])
    found = apply_changes(scenario, [QuotaSet("p", 5), QuotaSet("p", 7, "u", "H200")])
    assert [(q.user, q.model, q.limit_units) for q in found.quotas] == [
        ("", "", 5),
        ("u", "H200", 7),
    ]


def test_policy_words_become_their_types():
    found = apply_changes(a_scenario(), [PolicySet("backfill", "none"), PolicySet("moves", 2)])
    assert (found.policy.backfill, found.policy.moves) == (BackfillMode.NONE, 2)
