"""What cannot be, the agent alone refuses: with a code and a sentence, and nothing is touched."""

import pytest

from agents.contract.boards import known_boards
from agents.contract.documents import GpuMode
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.partitioning.diff import partition_changes
from agents.partitioning.steps import WantedSlice

GPU = "GPU-1"


def a_gpu(board: str = "H200-141GB", *, mig: bool | None = True) -> GpuFacts:
    known = known_boards()[board]
    return GpuFacts(
        index=0,
        uuid=GPU,
        product_name=known.product_names[0],
        memory_mib=known.memory_mib,
        pci_bus_id="",
        numa_node=None,
        mig_current=mig,
        mig_pending=mig,
    )


def wanted(*places: tuple[str, int, int], gpu: str = GPU) -> list[WantedSlice]:
    return [WantedSlice(gpu, *place, id=f"s-{n}") for n, place in enumerate(places)]


LIVE = InstanceFacts(
    gpu_uuid=GPU,
    instance_id=5,
    profile="1g.18gb",
    profile_id=19,
    start=6,
    size=1,
    uuid="MIG-1",
)
OVERLAP = wanted(("3g.71gb", 0, 4), ("2g.35gb", 2, 2))
EIGHT = [("1g.18gb", start, 1) for start in range(8)]
NO_MIG = next(key for key, board in known_boards().items() if not board.supports_mig)


@pytest.mark.parametrize(
    ("gpu", "slices", "mode", "code", "says"),
    [
        (
            a_gpu(),
            wanted(("3g.71gb", 0, 4), ("2g.35gb", 2, 2)),
            GpuMode.MIG,
            "illegal_layout",
            "together",
        ),
        (a_gpu(), wanted(("2g.35gb", 1, 2)), GpuMode.MIG, "illegal_layout", "2g.35gb at 1"),
        (
            a_gpu(),
            wanted(*[("1g.18gb", n, 1) for n in range(8)]),
            GpuMode.MIG,
            "illegal_layout",
            "at 7",
        ),
        (a_gpu(), wanted(("2g.35gb", 0, 4)), GpuMode.MIG, "illegal_layout", "2g.35gb at 0"),
        (a_gpu(), wanted(("1g.18gb", 0, 1)), GpuMode.WHOLE, "mode_whole", "whole and have slices"),
        (a_gpu(), wanted(("1g.18gb", 0, 1)), None, "mode_whole", "whole and have slices"),
        (a_gpu(NO_MIG, mig=None), wanted(("1g.18gb", 0, 1)), GpuMode.MIG, "no_mig", "has no MIG"),
        (a_gpu(), wanted(("1g.18gb", 0, 1), gpu="GPU-9"), GpuMode.MIG, "no_such_gpu", "GPU-9"),
    ],
)
def test_it_is_refused_with_a_code_and_a_sentence(gpu, slices, mode, code, says):
    changes = partition_changes([gpu], [], slices, {GPU: mode} if mode else {}, frozenset())
    assert {problem.code for problem in changes.problems} == {code}
    assert {problem.slice for problem in changes.problems} == {s.id for s in slices}
    assert says in changes.problems[0].sentence
    assert not [step for step in changes.steps if code != "no_such_gpu"]


def test_what_is_there_stays_while_the_wish_cannot_be():
    illegal = wanted(("3g.71gb", 0, 4), ("4g.71gb", 0, 4))
    assert (
        partition_changes([a_gpu()], [LIVE], illegal, {GPU: GpuMode.MIG}, frozenset()).steps == []
    )


def test_a_profile_of_another_board_is_named_and_the_others_are_made():
    slices = wanted(("1g.5gb", 0, 1), ("2g.35gb", 2, 2))
    changes = partition_changes([a_gpu()], [], slices, {GPU: GpuMode.MIG}, frozenset())
    assert [problem.code for problem in changes.problems] == ["no_such_profile"]
    assert len(changes.steps) == 1
