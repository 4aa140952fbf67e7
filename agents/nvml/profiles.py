"""Reads from the driver which MIG profiles a GPU has, and where their instances may sit."""

from collections.abc import Iterator
from ctypes import byref, c_uint
from dataclasses import dataclass

import pynvml

from agents.nvml.session import text, told


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """One GPU-instance profile as the driver tells it. `places` are (start, size) in memory slices;
    `remaining` is how many can still be made, None while MIG is off."""

    id: int
    query_index: int
    name: str
    compute_slices: int
    memory_mib: int
    multiprocessors: int
    max_instances: int
    places: tuple[tuple[int, int], ...]
    remaining: int | None


def read_profiles(gpu_uuid: str) -> list[ProfileFacts]:
    """By query index, media variants among them. Empty where the driver has none to tell: a board
    without MIG, and on Ampere while MIG is off. Raises NvmlFailure."""
    with told(f"MIG profiles of {gpu_uuid}"):
        return list(_profiles(pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)))


def _profiles(gpu: object) -> Iterator[ProfileFacts]:
    for query in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, query)
        except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
            continue
        yield ProfileFacts(
            id=info.id,
            query_index=query,
            name=text(info.name).removeprefix("MIG "),
            compute_slices=info.sliceCount,
            memory_mib=info.memorySizeMB,
            multiprocessors=info.multiprocessorCount,
            max_instances=info.instanceCount,
            places=_places(gpu, info.id),
            remaining=_remaining(gpu, info.id),
        )


def _places(gpu: object, profile_id: int) -> tuple[tuple[int, int], ...]:
    """The count first, then as many as there are."""
    count = c_uint()
    ask = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    try:
        ask(gpu, profile_id, None, byref(count))
        array = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
        ask(gpu, profile_id, array, byref(count))
    except pynvml.NVMLError_NotSupported:
        return ()
    return tuple(sorted((place.start, place.size) for place in list(array)[: count.value]))


def _remaining(gpu: object, profile_id: int) -> int | None:
    try:
        return int(pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, profile_id))
    except pynvml.NVMLError_NotSupported:
        return None
