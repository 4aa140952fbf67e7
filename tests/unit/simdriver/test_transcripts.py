"""Where the driver puts instances when it is not told, as public transcripts of real ones show.

A transcript is a list of profile ids in order of creation, and the GPU instance ids that came out.
Their sources are in `simulation.source` of boards.json; the guide is NVIDIA's MIG User Guide.
"""

import json
from ctypes import byref
from importlib.resources import files

import pynvml
import pytest

from tests.contract.drivers import offered_profiles, simulated

SEVEN_SLICES = ("H200-141GB", "H100-80GB", "A100-80GB", "A100-40GB")
NO_ROOM = "no room"
BOARDS_JSON = "boards.json, simulation: read in a public transcript"
TRANSCRIPTS = [
    (BOARDS_JSON, [19] * 7, [13, 11, 12, 7, 8, 9, 10]),
    (BOARDS_JSON, [14, 14, 14, 19], [5, 3, 4, 13]),
    (BOARDS_JSON, [14, 14, 14, 20], [5, 3, 4, 13]),
    ("the guide, known issues: this order works", [9, 19, 14, 19], [2, 7, 4, 8]),
    ("the guide, known issues: this one does not", [19, 19, 14, 9], [13, 11, 3, NO_ROOM]),
    (BOARDS_JSON, [14, 19, 19, 19, 19, 19], [5, 13, 7, 8, 9, 10]),
    (BOARDS_JSON, [9, 14], [2, 3]),
    (BOARDS_JSON, [9, 9], [2, 1]),
    (BOARDS_JSON, [19, 14, 5], [13, 5, 1]),
    (
        "facts 1.2, max 7: seven of 1g and never an eighth",
        [19] * 8,
        [13, 11, 12, 7, 8, 9, 10, NO_ROOM],
    ),
    ("facts 1.2, max 1: +me at most once", [20, 20], [13, NO_ROOM]),
    ("geometry: 7g leaves nothing", [0, 19], [0, NO_ROOM]),
    ("geometry: compute slices end at seven", [5, 9, 19], [1, 2, NO_ROOM]),
    ("geometry: four of 1g with double memory", [15] * 5, [5, 6, 3, 4, NO_ROOM]),
]


def create(gpu, profile_id: int) -> int | str:
    try:
        made = pynvml.nvmlDeviceCreateGpuInstance(gpu, profile_id)
    except pynvml.NVMLError_InsufficientResources:
        return NO_ROOM
    return pynvml.nvmlGpuInstanceGetInfo(made).id


def start_of(gpu, instance_id: int) -> int:
    instance = pynvml.nvmlDeviceGetGpuInstanceById(gpu, instance_id)
    return pynvml.nvmlGpuInstanceGetInfo(instance).placement.start


@pytest.mark.parametrize("node", SEVEN_SLICES, indirect=True)
@pytest.mark.parametrize(("source", "asked", "came"), TRANSCRIPTS, ids=str)
def test_instances_come_where_the_transcript_says(node, gpu, source, asked, came):
    assert [create(gpu, profile_id) for profile_id in asked] == came


@pytest.mark.parametrize("node", SEVEN_SLICES, indirect=True)
@pytest.mark.parametrize(
    ("profile_id", "key"), [(19, "1g"), (14, "2g"), (9, "3g"), (5, "4g"), (0, "7g")]
)
def test_starts_follow_the_fixed_order_of_the_facts(node, gpu, profile_id, key):
    """Facts 1.4: 1g 6,4,5,0,1,2,3; 2g 4,0,2; 3g 4,0; 4g 0."""
    raw = json.loads(files("agents.contract").joinpath("boards.json").read_text("utf-8"))
    order = raw["simulation"]["default_placement_preference"][key]
    came = [create(gpu, profile_id) for _ in order]
    assert [start_of(gpu, instance_id) for instance_id in came] == order


def test_the_first_1g_with_double_memory_starts_at_four(node, gpu):
    """Facts 1.4: only the first was ever seen, the others are by analogy."""
    assert start_of(gpu, create(gpu, 15)) == 4


@pytest.mark.parametrize("node", SEVEN_SLICES, indirect=True)
@pytest.mark.parametrize("profile_id", [19, 15, 14, 9, 5, 0])
def test_an_instance_has_the_heap_number_of_its_block(node, gpu, profile_id):
    """Facts 1.4 and go-nvml issue 146: 7g 0, halves 1 and 2, quarters 3 to 6, eighths 7 to 13."""
    firsts = {8: 0, 4: 1, 2: 3, 1: 7}
    while (made := create(gpu, profile_id)) != NO_ROOM:
        instance = pynvml.nvmlDeviceGetGpuInstanceById(gpu, made)
        place = pynvml.nvmlGpuInstanceGetInfo(instance).placement
        assert made == firsts[place.size] + place.start // place.size


def test_mig_devices_are_numbered_by_instance_not_by_age(node, gpu):
    for profile_id in (19, 14):  # instance 13, then 5
        made = pynvml.nvmlDeviceCreateGpuInstance(gpu, profile_id)
        pynvml.nvmlGpuInstanceCreateComputeInstance(made, {19: 0, 14: 1}[profile_id])
    devices = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index) for index in (0, 1)]
    assert [pynvml.nvmlDeviceGetGpuInstanceId(device) for device in devices] == [5, 13]


def test_room_that_is_left_is_told_by_profile(node, gpu):
    def left(profile_id: int) -> int:
        return pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, profile_id)

    assert [left(p) for p in (19, 20, 15, 14, 9, 5, 0)] == [7, 1, 4, 3, 2, 1, 1]
    pynvml.nvmlDeviceCreateGpuInstance(gpu, 9)
    assert [left(p) for p in (19, 20, 15, 14, 9, 5, 0)] == [4, 1, 2, 2, 1, 1, 0]


@pytest.mark.parametrize(
    ("board", "capable"),
    [("A30-24GB", 0), ("A100-80GB", 0), ("H100-80GB", 1), ("H200-141GB", 1), ("B200-180GB", 1)],
)
def test_field_199_says_whether_profiles_are_told_while_mig_is_off(board, capable, tmp_path):
    """Facts 2: DRA finds none on Ampere with MIG off; RTX PRO prints its tables. Inferred."""
    field = pynvml.NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE
    with simulated(tmp_path / "driver.json", board):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        (value,) = pynvml.nvmlDeviceGetFieldValues(gpu, [field])
        assert (value.nvmlReturn, value.value.uiVal) == (pynvml.NVML_SUCCESS, capable)
        assert bool(offered_profiles(gpu)) is bool(capable)
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 19)
        pynvml.nvmlDeviceSetMigMode(gpu, 1)
        assert offered_profiles(gpu)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_partial_compute_instance_has_its_name_and_multiprocessors(node, gpu, width):
    """Facts 1.3: "1c.3g.71gb", 16 SM for each slice of it; all 60 at full width."""
    made = pynvml.nvmlDeviceCreateGpuInstance(gpu, 9)
    compute = pynvml.nvmlGpuInstanceCreateComputeInstance(made, width - 1)
    device = pynvml.nvmlComputeInstanceGetInfo(compute).device
    told = pynvml.nvmlDeviceGetAttributes_v2(device)
    name = "3g.71gb" if width == 3 else f"{width}c.3g.71gb"
    assert pynvml.nvmlDeviceGetName(device) == f"NVIDIA H200 MIG {name}"
    assert told.multiprocessorCount == {1: 16, 2: 32, 3: 60}[width]
    assert (told.gpuInstanceSliceCount, told.computeInstanceSliceCount) == (3, width)
    assert told.memorySizeMB == 71_168, "the memory of the whole GPU instance"


def test_a_compute_instance_is_made_where_it_is_asked_for(node, gpu):
    made = pynvml.nvmlDeviceCreateGpuInstance(gpu, 0)
    create_at = pynvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement

    def at(profile_id: int, start: int, size: int) -> tuple[int, int]:
        place = pynvml.c_nvmlComputeInstancePlacement_t(start, size)
        compute = create_at(made, profile_id, byref(place))
        told = pynvml.nvmlComputeInstanceGetInfo(compute).placement
        return told.start, told.size

    assert at(2, 4, 3) == (4, 3)
    with pytest.raises(pynvml.NVMLError_InsufficientResources):
        at(0, 5, 1)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        at(1, 1, 2)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        at(0, 0, 2)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        at(7, 0, 1)
    assert at(3, 0, 4) == (0, 4)


def test_compute_instances_share_the_width_of_their_gpu_instance(node, gpu):
    made = pynvml.nvmlDeviceCreateGpuInstance(gpu, 9)  # three slices wide
    pynvml.nvmlGpuInstanceCreateComputeInstance(made, 1)  # two of them
    with pytest.raises(pynvml.NVMLError_InsufficientResources):
        pynvml.nvmlGpuInstanceCreateComputeInstance(made, 1)
    pynvml.nvmlGpuInstanceCreateComputeInstance(made, 0)
    uuids = set()
    for index in (0, 1):
        device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        uuids.add(pynvml.nvmlDeviceGetUUID(device))
    assert len(uuids) == 2


@pytest.mark.parametrize("node", ["H100-80GB"], indirect=True)
def test_the_small_instance_with_double_memory_has_a_compute_profile_of_its_own(node, gpu):
    made = pynvml.nvmlDeviceCreateGpuInstance(gpu, 15)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlGpuInstanceCreateComputeInstance(made, 0)
    pynvml.nvmlGpuInstanceCreateComputeInstance(made, 7)
