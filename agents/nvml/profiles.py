"""Reads which MIG profiles a GPU has, and where their instances may be placed."""

import contextlib
from collections.abc import Iterator
from ctypes import byref, c_uint
from dataclasses import replace

import pynvml

from agents.contract.boards import Profile, board_named
from agents.facts.gpus import GpuFacts, ProfileFacts
from agents.nvml.errors import NvmlFailure, nvml_errors
from agents.nvml.profile_constants import NO_SUCH_PROFILE
from agents.nvml.session import as_text


def read_profiles(gpu_uuid: str) -> list[ProfileFacts]:
    """All profiles, media variants included, by query index. Raises NvmlFailure.

    Empty for a board without MIG, and on Ampere while MIG is off."""
    with nvml_errors(f"MIG profiles of {gpu_uuid}"):
        return list(_profiles(pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)))


class ProfileDiscovery:
    """Discovers the profiles of boards that the table lacks, and caches them per GPU.

    On Ampere the driver reports them only while MIG is on, so it is asked until it does."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Profile, ...]] = {}

    def with_profiles(self, gpus: list[GpuFacts]) -> list[GpuFacts]:
        """`gpus`, those of unknown boards with the profiles of their driver; without any if the
        driver does not answer for the GPU."""
        return [self._discovered(gpu) if self._is_unknown(gpu) else gpu for gpu in gpus]

    def _is_unknown(self, gpu: GpuFacts) -> bool:
        known = board_named(gpu.product_name, gpu.memory_mib)
        return known is None and gpu.mig_current is not None

    def _discovered(self, gpu: GpuFacts) -> GpuFacts:
        if gpu.uuid not in self._known:
            with contextlib.suppress(NvmlFailure):
                readings = (_profile(facts) for facts in read_profiles(gpu.uuid))
                if profiles := tuple(profile for profile in readings if profile):
                    self._known[gpu.uuid] = profiles
        return replace(gpu, discovered=self._known.get(gpu.uuid, ()))


def _profile(facts: ProfileFacts) -> Profile | None:
    """None for a profile without a place, or with places of different sizes: it is not offered."""
    sizes = {size for _, size in facts.places}
    if len(sizes) != 1:
        return None
    return Profile(
        name=facts.name,
        id=facts.id,
        query_index=facts.query_index,
        compute_slices=facts.compute_slices,
        memory_slices=sizes.pop(),
        memory_mib=facts.memory_mib,
        multiprocessors=facts.multiprocessors,
        max_instances=facts.max_instances,
        starts=tuple(start for start, _ in facts.places),
    )


def _profiles(gpu: object) -> Iterator[ProfileFacts]:
    for query in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, query)
        except NO_SUCH_PROFILE:
            continue
        yield ProfileFacts(
            id=info.id,
            query_index=query,
            name=as_text(info.name).removeprefix("MIG "),
            compute_slices=info.sliceCount,
            memory_mib=info.memorySizeMB,
            multiprocessors=info.multiprocessorCount,
            max_instances=info.instanceCount,
            places=_places(gpu, info.id),
            remaining=_remaining(gpu, info.id),
        )


def _places(gpu: object, profile_id: int) -> tuple[tuple[int, int], ...]:
    """Reads the count first, then that many placements."""
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
