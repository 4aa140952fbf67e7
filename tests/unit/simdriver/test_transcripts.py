"""Where the driver puts instances when it is not told, as public transcripts of real ones show.

A transcript is a list of profile ids in order of creation, and the GPU instance ids that came out.
"""

import pynvml
import pytest

SEVEN_SLICES = ("H200-141GB", "H100-80GB", "A100-80GB", "A100-40GB")
NO_ROOM = "no room"
TRANSCRIPTS = [
    ([19] * 7, [13, 11, 12, 7, 8, 9, 10]),
    ([14, 14, 14, 19], [5, 3, 4, 13]),
    ([14, 14, 14, 20], [5, 3, 4, 13]),
    ([9, 19, 14, 19], [2, 7, 4, 8]),
    ([14, 19, 19, 19, 19, 19], [5, 13, 7, 8, 9, 10]),
    ([19, 19, 14, 9], [13, 11, 3, NO_ROOM]),
    ([9, 14], [2, 3]),
    ([9, 9], [2, 1]),
    ([19, 14, 5], [13, 5, 1]),
    ([0, 19], [0, NO_ROOM]),
]


def create(gpu, profile_id: int) -> int | str:
    try:
        made = pynvml.nvmlDeviceCreateGpuInstance(gpu, profile_id)
    except pynvml.NVMLError_InsufficientResources:
        return NO_ROOM
    return pynvml.nvmlGpuInstanceGetInfo(made).id


@pytest.mark.parametrize("node", SEVEN_SLICES, indirect=True)
@pytest.mark.parametrize(("asked", "came"), TRANSCRIPTS, ids=str)
def test_instances_come_where_the_transcript_says(node, gpu, asked, came):
    assert [create(gpu, profile_id) for profile_id in asked] == came


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
