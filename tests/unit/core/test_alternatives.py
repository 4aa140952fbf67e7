"""What a waiting job could be instead; only what the planner tried is offered."""

import pytest

from agents.contract.boards import known_boards
from scheduler.core.explain.alternatives import MAX_TRIED, AlternativeKind, alternatives
from scheduler.core.model.snapshot import Topology
from scheduler.core.request import RequestLimits, parse_request
from tests.support.snapshots import A30, H200, a_job

HERE = [known_boards()[H200], known_boards()[A30]]


def kinds(found):
    return [one.kind for one in found]


def of(job, can_start=lambda _: True, most=9):
    return alternatives(job, HERE, can_start, max_alternatives=most)


def test_nothing_is_offered_that_the_planner_says_cannot_start():
    assert of(a_job(gpus=4, replicas=2), lambda _: False) == []


def test_each_offer_was_tried_as_it_is_written():
    tried = []
    found = of(a_job(gpus=4, replicas=4), lambda job: tried.append(job) or job.replicas == 2)
    assert kinds(found) == [AlternativeKind.REPLICAS]
    assert found[0].changes == {"replicas": 2}
    assert any(job.replicas == 2 and job.device.gpus == 4 for job in tried)


@pytest.mark.parametrize(
    ("job", "kind", "changes"),
    [
        (a_job(mig="2g.35gb"), AlternativeKind.PROFILE, {"device": {"mig": "1g.35gb"}}),
        (a_job(gpus=4), AlternativeKind.GPUS, {"device": {"gpus": 2}}),
        (a_job(gpus=1, models=("H200",)), AlternativeKind.MODEL, {"device": {"gpus": 1}}),
        (a_job(gpus=1, replicas=3), AlternativeKind.REPLICAS, {"replicas": 1}),
        (a_job(needs=("rack=a",)), AlternativeKind.NODE, {"needs": []}),
        (a_job(time_limit_seconds=14_400), AlternativeKind.LIMIT, {"time_limit": "2h"}),
        (
            a_job(gpus=1, replicas=2, topology=Topology.SAME_NODE),
            AlternativeKind.SPREAD,
            {"topology": "any"},
        ),
        (
            a_job(device_mib=12_288),
            AlternativeKind.SHARE,
            {"device": {"memory": "12GiB", "isolation": "any"}},
        ),
    ],
)
def test_every_kind_of_change_is_offered_in_the_words_of_a_request(job, kind, changes):
    assert {one.kind: one.changes for one in of(job)}[kind] == changes


def test_what_is_offered_reads_as_a_request():
    whole = {
        "project": "p",
        "name": "n",
        "image": "i",
        "command": ["c"],
        "device": {"gpus": 8, "models": ["H200"]},
        "replicas": 4,
        "topology": "same-node",
    }
    job = a_job(gpus=8, models=("H200",), replicas=4, topology=Topology.SAME_NODE)
    found = of(job)
    assert len(found) > 3
    for one in found:
        parse_request(whole | one.changes, RequestLimits())


def test_the_smallest_change_comes_first_and_one_of_each_kind():
    found = of(a_job(mig="4g.71gb", replicas=4), most=3)
    assert len(found) == 3
    assert len(set(kinds(found))) == 3
    assert kinds(found)[0] is AlternativeKind.LIMIT


def test_the_next_smaller_slice_of_any_board_that_is_here_is_tried_first():
    tried = []
    of(a_job(mig="2g.35gb"), lambda job: tried.append(job.device.mig))
    assert [name for name in tried if name not in ("", "2g.35gb")][:3] == [
        "1g.35gb",
        "4g.24gb",
        "1g.18gb",
    ]


def test_a_seventh_of_a_gpu_is_offered_where_no_more_of_a_quota_is_left():
    (one,) = of(a_job(gpus=1), lambda job: job.device.mig == "1g.18gb")
    assert one.changes == {"device": {"mig": "1g.18gb"}}


def test_only_so_many_changes_are_tried():
    tried = []
    job = a_job(gpus=64, replicas=64, models=("H200",), needs=("a",), topology=Topology.NVLINK)
    of(job, lambda one: tried.append(one))
    assert 0 < len(tried) <= MAX_TRIED
