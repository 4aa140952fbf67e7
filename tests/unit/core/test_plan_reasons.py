"""Why a job waits: one dominant reason that is true, with the numbers by node."""

from agents.contract.documents import SliceKind
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.reasons import REASON_KINDS, ReasonClass, ReasonCode
from scheduler.core.model.snapshot import RunningJob
from tests.support.snapshots import (
    A30,
    L40S,
    NOW,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_slice,
    away,
    idle,
    placed,
    plan_of,
    reason,
)


def why(job, *nodes, **fields):
    found = plan_of(a_cluster(*nodes, jobs=[job], **fields))
    assert not found.placements
    return reason(found, job.id)


def test_a_fragmented_cluster_is_told_with_what_each_node_has_free():
    """Six memory slices are free on every GPU, and nowhere four of them in a row."""
    holes = a_gpu(a_slice("1g.18gb", 1), a_slice("1g.18gb", 5))
    said = why(a_job(mig="3g.71gb"), a_node(holes, holes, name="a"), a_node(holes, name="b"))
    assert said.code is ReasonCode.FRAGMENTATION
    assert said.evidence.items() >= {"needed": 1, "free": 3, "by_node": {"a": 2, "b": 1}}.items()
    assert said.sentence == "3 × 3g.71gb of H200 free in total, but not where they fit together"


def test_whole_gpus_on_several_nodes_are_fragments_for_a_job_that_needs_them_on_one():
    taken = a_gpu(a_slice(""))
    nodes = [a_node(a_gpu(), taken, name=name) for name in ("a", "b")]
    said = why(a_job(gpus=2), *nodes)
    assert said.code is ReasonCode.FRAGMENTATION
    assert said.evidence.items() >= {"needed": 2, "free": 2, "by_node": {"a": 1, "b": 1}}.items()


def test_a_full_cluster_lacks_resources_and_says_how_many():
    said = why(a_job(gpus=2), a_node(a_gpu(a_slice("")), a_gpu(), name="a"))
    assert said.code is ReasonCode.RESOURCES
    assert said.evidence.items() >= {"needed": 2, "free": 1, "by_node": {"a": 1}}.items()
    assert said.sentence == "2 × H200 needed, 1 free"


def test_memory_slices_that_no_instance_can_use_any_more_are_not_called_free():
    """Seven 1g.18gb leave one memory slice and three 2g.35gb leave two: no board makes another."""
    sevenths = a_gpu(*[a_slice("1g.18gb", start) for start in range(7)])
    thirds = a_gpu(*[a_slice("2g.35gb", start) for start in (0, 2, 4)])
    for gpu, profile in ((sevenths, "1g.18gb"), (thirds, "2g.35gb"), (sevenths, "1g.18gb+me")):
        said = why(a_job(mig=profile), a_node(gpu))
        assert said.code is ReasonCode.RESOURCES, profile
        assert said.evidence.items() >= {"needed": 1, "free": 0, "by_node": {"n1": 0}}.items()


def test_a_profile_that_a_board_has_but_once_is_not_free_beside_its_like():
    said = why(a_job(mig="1g.18gb+me"), a_node(a_gpu(a_slice("1g.18gb+me", 0))))
    assert (said.code, said.evidence["free"]) == (ReasonCode.RESOURCES, 0)


def test_only_the_boards_that_could_serve_are_counted():
    nodes = (a_node(a_gpu(a_slice("")), name="a"), a_node(a_gpu(board=A30), name="b"))
    said = why(a_job(mig="2g.35gb"), *nodes)
    assert said.evidence["by_node"] == {"a": 0}


def test_no_node_yet_is_said_and_refuses_nothing():
    said = why(a_job())
    assert said.code is ReasonCode.NODE_UNAVAILABLE
    assert said.sentence == "No node has been added yet"
    said = why(a_job(), a_node(name="cpu-only"))
    assert said.code is ReasonCode.NODE_UNAVAILABLE


def test_nodes_that_are_away_are_named_with_what_keeps_them():
    nodes = (away(a_gpu(), name="b", because="b is lost"), away(a_gpu(), name="a"))
    said = why(a_job(), *nodes, a_node(a_gpu(board=L40S), name="c"))
    assert said.code is ReasonCode.NODE_UNAVAILABLE
    assert said.evidence == {"nodes": {"a": "a lost", "b": "b is lost"}}
    assert said.sentence == "No node that could run it accepts jobs: a lost; b is lost"


def test_a_cheaper_gpu_on_a_node_that_is_away_is_not_the_reason_where_others_take_work():
    full = a_node(a_gpu(a_slice("")), name="b")
    said = why(a_job(gpus=1), away(a_gpu(board=A30), name="a"), full)
    assert said.code is ReasonCode.RESOURCES
    assert said.evidence["by_node"] == {"b": 0}


def test_nothing_is_placed_on_a_node_that_takes_no_work():
    for because in ("n1 is cordoned: disk", "n1 is unreachable", "n1 is enrolled"):
        said = why(a_job(gpus=1), away(a_gpu(), because=because))
        assert because in said.sentence


def test_an_idle_slice_of_a_node_that_takes_no_work_is_neither_given_nor_merged():
    found = plan_of(a_cluster(away(a_gpu(idle())), jobs=[a_job("1"), a_job("2", gpus=1)]))
    assert (found.placements, found.merges) == ((), ())


def test_an_unhealthy_gpu_gets_nothing_and_is_counted_as_out_of_service():
    node = a_node(a_gpu(healthy=False), a_gpu(idle(), healthy=False))
    jobs = [a_job("1"), a_job("2", gpus=1), a_job("3", device_mib=1_000)]
    found = plan_of(a_cluster(node, jobs=jobs))
    assert (found.placements, found.merges) == ((), ())
    for job in jobs:
        said = reason(found, job.id)
        assert said.code is ReasonCode.RESOURCES
        assert said.evidence["out_of_service"] == 2


def test_a_healthy_gpu_beside_an_unhealthy_one_is_given():
    found = plan_of(a_cluster(a_node(a_gpu(healthy=False), a_gpu()), jobs=[a_job(gpus=1)]))
    assert found.placements[0].replicas[0].devices[0].gpu == "n1/1"


def test_the_same_request_gets_the_same_reason_in_one_pass():
    jobs = [a_job(str(i), gpus=2, user=f"u{i}") for i in range(1, 4)]
    found = plan_of(a_cluster(a_node(a_gpu(), a_gpu(a_slice(""))), jobs=jobs))
    assert len({str(reason(found, job.id).as_dict()) for job in jobs}) == 1


def test_priority_is_the_reason_only_where_the_free_cluster_would_have_done():
    jobs = [a_job("1", gpus=1), a_job("2", gpus=1), a_job("3", gpus=2)]
    found = plan_of(a_cluster(a_node(a_gpu(), a_gpu(a_slice(""))), jobs=jobs))
    assert placed(found) == ["1"]
    assert reason(found, "2").code is ReasonCode.PRIORITY
    assert reason(found, "3").code is ReasonCode.RESOURCES


def test_every_reason_says_what_would_unblock_it_and_who_has_to_move():
    full = a_node(a_gpu(a_slice("")))
    reasons = [
        why(a_job(gpus=1), full),
        why(a_job(gpus=2), full),
        why(a_job()),
        why(a_job(gpus=1), away(a_gpu())),
        why(a_job(mig="7g.141gb"), a_node(a_gpu(idle("1g.18gb", 0)))),
    ]
    for said in reasons:
        told = said.as_dict()
        assert told["unblocks"] and told["sentence"]
        assert told["class"] == REASON_KINDS[said.code].reason_class
    assert [said.reason_class for said in reasons] == [
        *(ReasonClass.WAIT, ReasonClass.CHANGE, ReasonClass.ASK, ReasonClass.ASK),
        ReasonClass.WAIT,
    ]


def test_the_evidence_counts_nodes_filter_by_filter():
    nodes = [
        a_node(a_gpu(a_slice("")), name="full"),
        a_node(a_gpu(), name="small", cpu_free_milli=100),
        a_node(a_gpu(), name="other", taints=("beta",)),
        a_node(a_gpu(board=A30), name="a30"),
    ]
    said = why(a_job(gpus=1, models=("H200",)), *nodes)
    assert said.evidence["filters"] == {
        "all": 4,
        "with_this_gpu": 3,
        "that_take_it": 2,
        "with_cpu_and_memory": 1,
        "with_room": 1,
    }


def test_the_evidence_tells_who_holds_such_gpus_without_naming_others():
    place = (ReplicaPlacement(0, "n1", (_whole("n1/0"),)),)
    runs = [
        RunningJob(a_job("8", project=project, time_limit_seconds=limit), place, NOW - 100)
        for project, limit in (("p", 700), ("q", 400))
    ]
    said = why(a_job(gpus=2), a_node(a_gpu(a_slice("")), a_gpu()), running=runs)
    assert said.evidence["held_by_own_jobs"] == 1
    assert said.evidence["held_by_other_jobs"] == 1
    assert said.evidence["first_ends_at"] == NOW + 300
    assert "q" not in str(said.evidence)


def _whole(gpu):
    return DevicePlacement(gpu, SliceKind.GPU, "", 0, 8, 56_000, 143_771, "s")


def test_a_member_beyond_the_cap_of_its_array_waits_for_another_to_end():
    jobs = [a_job(str(n), gpus=1, array=5, array_cap=2) for n in range(4)]
    found = plan_of(a_cluster(a_node(*[a_gpu()] * 8), jobs=[*jobs, a_job("9", gpus=1)]))
    assert sorted(place.job for place in found.placements) == ["0", "1", "9"]
    said = reason(found, "2")
    assert said.code is ReasonCode.ARRAY_CAP
    assert said.sentence == "A-5 may run 2 members at once, and as many run"
    assert said.unblocks == "It starts when a running member ends"
    assert said.evidence == {"array": "A-5", "max_running": 2, "running": 2}
