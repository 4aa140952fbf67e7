"""Which shares a node will not give: a code and a sentence each, and who keeps a right."""

import itertools

import pytest

from agents.contract.documents import GpuMode, SliceKind
from agents.mps.limits import max_clients
from agents.mps.refusals import ShareCapacity, ShareClaim, ShareCode, share_refusals

WHOLE = ("GPU-1", "", 0, 0)
SLICE = ("GPU-1", "3g.71gb", 0, 4)
BESIDE = ("GPU-1", "3g.71gb", 4, 4)
ROOMS = {
    WHOLE: ShareCapacity(141_000, 48),
    SLICE: ShareCapacity(71_000, 20),
    BESIDE: ShareCapacity(71_000, 20),
}


def share(replica="r-1", **fields):
    usual = {"project": "p-1", "kind": SliceKind.MPS, "place": WHOLE}
    return ShareClaim(replica, **usual | {"threads": 50, "memory_mib": 70_000} | fields)


def alone(replica="r-1", place=WHOLE):
    kind = SliceKind.MIG if place[1] else SliceKind.GPU
    return ShareClaim(replica, "p-1", kind, place)


def refused(*wanted, running=(), mode=GpuMode.MPS, rooms=ROOMS, unable=""):
    found = share_refusals(running, wanted, rooms, {"GPU-1": mode}, unable)
    return {replica: (refusal.code, refusal.sentence) for replica, refusal in found.items()}


def test_shares_that_fill_a_gpu_exactly_are_given():
    assert refused(share("r-1"), share("r-2")) == {}


@pytest.mark.parametrize(
    ("claim", "running", "mode", "code", "says"),
    [
        (share(threads=51), share("r-0"), "mps", ShareCode.OVER_THREADS, "101 % of the SMs"),
        (share(threads=0), None, "mps", ShareCode.OVER_THREADS, "1 to 100 %"),
        (share(threads=101), None, "mps", ShareCode.OVER_THREADS, "1 to 100 %"),
        (share(threads=3, processes=4), None, "mps", ShareCode.OVER_THREADS, "each of 4"),
        (share(memory_mib=71_001), share("r-0"), "mps", ShareCode.OVER_MEMORY, "141001 MiB"),
        (share(memory_mib=141_001), None, "mps", ShareCode.OVER_MEMORY, "the device has 141000"),
        (share(memory_mib=0), None, "mps", ShareCode.OVER_MEMORY, "1 MiB of memory"),
        (share(project="p-2"), share("r-0"), "mps", ShareCode.PROJECTS, "shares of project p-1"),
        (share(processes=49), None, "mps", ShareCode.CLIENTS, "takes 48 clients"),
        (
            share(processes=9, threads=9, memory_mib=9),
            share("r-0", processes=40),
            "mps",
            ShareCode.CLIENTS,
            "49 processes",
        ),
        (share(), None, "mig", ShareCode.MODE, "must name an instance"),
        (share(place=SLICE), None, "mps", ShareCode.MODE, "not in MIG mode"),
        (share(place=SLICE), None, "whole", ShareCode.MODE, "has no 3g.71gb to share"),
        (share(is_only_device=False), None, "mps", ShareCode.MODE, "one share and no more"),
        (alone(), share("r-0"), "mps", ShareCode.MODE, "1 MPS shares"),
        (share(), alone("r-0"), "mps", ShareCode.MODE, "in exclusive use"),
        (share(place=SLICE), alone("r-0", SLICE), "mig", ShareCode.MODE, "in exclusive use"),
        (alone(place=SLICE), share("r-0", place=SLICE), "mig", ShareCode.MODE, "MPS shares"),
        (
            share(place=SLICE, memory_mib=71_001),
            None,
            "mig",
            ShareCode.OVER_MEMORY,
            "the device has 71000",
        ),
        (
            share(place=SLICE, processes=21),
            None,
            "mig",
            ShareCode.CLIENTS,
            "takes 20 clients",
        ),
    ],
)
def test_it_is_refused_with_a_code_and_a_sentence(claim, running, mode, code, says):
    before = [running] if running else []
    ((replica, why),) = refused(claim, running=before, mode=GpuMode(mode)).items()
    assert (replica, why[0]) == ("r-1", code)
    assert says in why[1]


def test_a_node_without_the_control_program_gives_no_share_and_runs_all_else():
    wanted = (share("r-1"), alone("r-2", ("GPU-2", "", 0, 0)))
    why = "nvidia-cuda-mps-control is not on this node"
    assert refused(*wanted, unable=why) == {"r-1": (ShareCode.MISSING, why)}


def test_instances_of_one_gpu_are_shared_apart_also_by_two_projects():
    beside = share("r-2", place=BESIDE, project="p-2", threads=100)
    assert refused(share("r-1", place=SLICE, threads=100), beside, mode=GpuMode.MIG) == {}


def test_gpus_do_not_count_for_each_other():
    other = share("r-2", place=("GPU-2", "", 0, 0), project="p-2", threads=100)
    assert refused(share("r-1", threads=100), other) == {}


def test_what_runs_keeps_its_right_whatever_its_id():
    running = share("r-9", threads=80)
    assert list(refused(share("r-1"), running=[running])) == ["r-1"]


def test_among_wishes_the_lower_id_has_it_and_the_order_of_asking_changes_nothing():
    wanted = [share("r-1"), share("r-2"), share("r-3"), share("r-4", project="p-2", threads=1)]
    for order in itertools.permutations(wanted):
        found = refused(*order)
        assert {replica: code for replica, (code, _) in found.items()} == {
            "r-3": ShareCode.OVER_THREADS,
            "r-4": ShareCode.PROJECTS,
        }


def test_a_refused_replica_takes_no_room_from_others_with_any_of_its_devices():
    pair = [
        share("r-1", place=("GPU-2", "", 0, 0), threads=100, is_only_device=False),
        share("r-1", threads=100, is_only_device=False),
    ]
    assert list(refused(*pair, share("r-2", threads=100))) == ["r-1"]


def test_an_instance_still_to_be_made_is_judged_when_it_is_there():
    huge = share(place=SLICE, memory_mib=999_999)
    assert refused(huge, mode=GpuMode.MIG, rooms={}) == {}
    assert list(refused(huge, mode=GpuMode.MIG)) == ["r-1"]


@pytest.mark.parametrize(
    ("cuda", "capability", "compute", "of", "most"),
    [
        ("12.4", "8.0", 1, 1, 48),
        ("13.0", "9.0", 1, 1, 48),
        ("13.1", "9.0", 1, 1, 60),
        ("14.0", "10.0", 1, 1, 60),
        ("13.1", "6.1", 1, 1, 16),
        ("", "", 1, 1, 48),
        ("13.0", "9.0", 1, 7, 6),
        ("13.0", "9.0", 2, 7, 13),
        ("13.0", "9.0", 3, 7, 20),
        ("13.0", "9.0", 7, 7, 48),
        ("13.1", "9.0", 3, 7, 25),
        ("13.0", "6.1", 1, 100, 1),
    ],
)
def test_an_mps_server_takes_so_many_clients(cuda, capability, compute, of, most):
    assert max_clients(cuda, capability, compute, of) == most
