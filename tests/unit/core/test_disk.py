"""Disk of the node: a third amount beside CPU and memory, which few ask for."""

from collections import Counter

import pytest

from agents.contract.boards import known_boards
from agents.contract.documents import SliceKind
from scheduler.core.devices.options import device_options
from scheduler.core.model.decisions import DevicePlacement, JobPlacement, ReplicaPlacement
from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Priority, RunningJob, Topology
from scheduler.core.pass_cache import PassCache, has_same_hardware
from scheduler.core.placement.feasibility import infeasible_reason
from scheduler.core.placement.fleet import fleet_of
from scheduler.core.placement.ledger import Ledger
from scheduler.core.plan import plan
from tests.support.snapshots import (
    H200,
    NOW,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_slice,
    illegal_reason,
    plan_of,
    reason,
)

GIB = 1 << 10


def with_disk(*gpus, free=100 * GIB, total=100 * GIB, **fields):
    return a_node(*gpus, disk_free_mib=free, disk_total_mib=total, **fields)


def silent(*gpus, **fields):
    """A node whose agent says nothing of its disk."""
    return a_node(*gpus, disk_free_mib=0, disk_total_mib=None, **fields)


def nodes_of(found):
    return [replica.node for place in found.placements for replica in place.replicas]


def whole_gpu(node):
    return DevicePlacement(f"{node}/0", SliceKind.GPU, "", 0, 8, 56_000, 0)


def test_a_job_goes_where_the_disk_is():
    nodes = (with_disk(a_gpu(), name="a", free=10 * GIB), with_disk(a_gpu(), name="b"))
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, disk_mib=50 * GIB)]))
    assert nodes_of(found) == ["b"]


def test_what_one_job_takes_of_the_disk_the_next_one_has_not():
    jobs = [a_job(str(i), gpus=1, disk_mib=40 * GIB) for i in range(3)]
    found = plan_of(a_cluster(with_disk(*[a_gpu()] * 4), jobs=jobs))
    assert [place.job for place in found.placements] == ["0", "1"]
    assert found.deferrals[0].reason.code is ReasonCode.PRIORITY, "alone it would start"


def test_replicas_count_the_disk_of_their_node():
    nodes = [with_disk(*[a_gpu()] * 4, name=name) for name in ("a", "b")]
    gang = a_job(gpus=1, replicas=4, disk_mib=50 * GIB)
    assert Counter(nodes_of(plan_of(a_cluster(*nodes, jobs=[gang])))) == {"a": 2, "b": 2}
    near = a_job(gpus=1, replicas=3, disk_mib=50 * GIB, topology=Topology.SAME_NODE)
    said = reason(plan_of(a_cluster(*nodes, jobs=[near])))
    assert said.code is ReasonCode.IMPOSSIBLE and "the largest node has disk for 2" in said.sentence


@pytest.mark.parametrize("node", [silent(a_gpu()), with_disk(a_gpu(), free=-5 * GIB)])
def test_who_asks_for_no_disk_may_stand_where_none_is_left_or_known(node):
    assert nodes_of(plan_of(a_cluster(node, jobs=[a_job(gpus=1)]))) == ["n1"]


def test_more_disk_than_any_node_has_can_never_run():
    nodes = (with_disk(a_gpu(), name="a"), with_disk(a_gpu(), name="b", total=200 * GIB))
    job = a_job(gpus=1, disk_mib=201 * GIB)
    said = reason(plan_of(a_cluster(*nodes, jobs=[job])))
    assert said.code is ReasonCode.IMPOSSIBLE
    assert said.sentence == (
        "No node with this GPU has 201 GB of disk for jobs; the largest has 200 GB"
    )
    assert said.evidence == {"disk_mib": 200 * GIB}
    assert infeasible_reason(job, a_cluster(*nodes)) == said
    assert infeasible_reason(a_job(gpus=1, disk_mib=200 * GIB), a_cluster(*nodes)) is None


def test_a_node_too_small_in_cpu_is_not_blamed_for_its_disk():
    said = infeasible_reason(
        a_job(gpus=1, cpu_milli=10**6, disk_mib=GIB), a_cluster(with_disk(a_gpu()))
    )
    assert "has 1000 CPUs" in said.sentence


def test_a_node_that_may_have_the_disk_lets_a_job_wait_and_says_why():
    nodes = (silent(a_gpu(), name="a"), with_disk(a_gpu(), name="b", free=GIB))
    said = reason(plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, disk_mib=500 * GIB)])))
    assert said.code is ReasonCode.RESOURCES
    assert said.sentence.endswith("but no such node reports 500 GB of disk")
    assert said.unblocks == "An admin has to update the agents, so that they report their disk"
    assert (said.evidence["disk_free_mib"], said.evidence["disk_not_told"]) == (GIB, 1)


def test_a_job_that_waits_for_disk_is_told_so_filter_by_filter():
    nodes = (
        with_disk(a_gpu(), name="a", free=GIB),
        with_disk(a_gpu(), name="b", free=2 * GIB),
        with_disk(a_gpu(), name="c", cpu_free_milli=10),
    )
    said = reason(plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, disk_mib=50 * GIB)])))
    assert said.code is ReasonCode.RESOURCES
    assert said.sentence == "1 \u00d7 H200 would fit, but no such node has 50 GB of disk free"
    assert said.evidence["filters"] == {
        "all": 3,
        "with_this_gpu": 3,
        "that_take_it": 3,
        "with_cpu_and_memory": 2,
        "with_disk": 0,
        "with_room": 3,
    }
    assert said.evidence["disk_free_mib"] == 100 * GIB
    assert "disk_not_told" not in said.evidence


def test_a_place_is_refused_once_its_disk_is_taken():
    job = a_job(gpus=1, disk_mib=50 * GIB)
    place = JobPlacement("1", (ReplicaPlacement(0, "n1", (whole_gpu("n1"),)),))
    assert illegal_reason(place, job, a_cluster(with_disk(a_gpu(), free=50 * GIB))) is None
    said = illegal_reason(place, job, a_cluster(with_disk(a_gpu(), free=50 * GIB - 1)))
    assert said is not None and said.sentence == "n1 lacks CPU, memory or disk"
    assert illegal_reason(place, job, a_cluster(silent(a_gpu()))) is not None


def holder(disk_mib, **fields):
    """A job that runs on the first GPU of n1 and ends in ten minutes at the latest."""
    job = a_job("9", gpus=1, disk_mib=disk_mib, time_limit_seconds=10_600, **fields)
    return RunningJob(job, (ReplicaPlacement(0, "n1", (held(),)),), NOW - 10_000)


def held():
    return DevicePlacement("n1/0", SliceKind.GPU, "", 0, 8, 56_000, 0, slice="n1/0/0")


def busy(free):
    return with_disk(a_gpu(a_slice("")), a_gpu(), free=free)


def test_a_blocked_job_is_promised_the_time_when_disk_is_given_back():
    run = holder(80 * GIB)
    cluster = a_cluster(busy(20 * GIB), jobs=[a_job(gpus=1, disk_mib=60 * GIB)], running=[run])
    (kept,) = plan_of(cluster).reservations
    assert kept.starts_at == NOW + 600


def test_a_later_job_does_not_take_the_disk_that_is_promised():
    run = holder(55 * GIB)
    first = a_job("1", gpus=1, disk_mib=60 * GIB, priority=Priority.HIGH)
    later = {"gpus": 1, "time_limit_seconds": 10_000}
    takes = a_job("2", disk_mib=20 * GIB, **later)
    # Promised is 60 of 100: 40 are left beside it, and 41 are not.
    crowds = a_job("2", disk_mib=41 * GIB, **later)
    three = with_disk(*busy(0).gpus, a_gpu(), free=45 * GIB)
    started = {}
    for job in (takes, crowds):
        found = plan_of(a_cluster(three, jobs=[first, job], running=[run]))
        started[job.disk_mib] = [place.job for place in found.placements]
    assert started == {20 * GIB: ["2"], 41 * GIB: []}


def test_work_stops_for_the_disk_that_it_holds():
    urgent = a_job("1", gpus=1, disk_mib=60 * GIB, priority=Priority.HIGH)
    runs = [holder(80 * GIB, priority=Priority.LOW, preemptible=True)]
    found = plan_of(a_cluster(busy(20 * GIB), jobs=[urgent], running=runs))
    assert [stop.job for stop in found.preemptions] == ["9"]


def test_the_fleet_follows_the_disk_that_the_ledger_holds():
    job = a_job(gpus=1, disk_mib=60 * GIB)
    ledger = Ledger(a_cluster(with_disk(a_gpu(), a_gpu())))
    fleet = fleet_of(ledger)
    (want,) = device_options(job.device, [known_boards()[H200]])
    node = ledger.nodes["n1"]

    def found():
        return [n.view.id for n in fleet.nodes_for(job, want, 1, merging=False)]

    assert found() == ["n1"]
    mark = ledger.mark()
    ledger.reserve_host(node, 0, 0, 50 * GIB)
    assert found() == []
    ledger.rollback(mark)
    assert found() == ["n1"]


def test_a_planner_that_remembers_hears_of_other_disks():
    kept, job = PassCache(), a_job(gpus=1, disk_mib=60 * GIB)
    full, roomy = (a_cluster(with_disk(a_gpu(), free=f), jobs=[job]) for f in (GIB, 90 * GIB))
    larger = a_cluster(with_disk(a_gpu(), free=GIB, total=500 * GIB), jobs=[job])
    assert has_same_hardware(full, roomy) and not has_same_hardware(full, larger)
    for snapshot, starts in ((full, 0), (roomy, 1), (full, 0), (larger, 0)):
        assert len(plan(snapshot, Policy(), cache=kept).placements) == starts
