"""The profiles of GPU instances and of compute instances that a driver reports for a board."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pynvml

# The driver answers so for a profile that the board, or the GPU instance, does not have.
NO_SUCH_PROFILE = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument)


@dataclass(frozen=True, slots=True)
class InstanceProfile:
    """A profile of GPU instances."""

    id: int
    name: str
    compute_slices: int
    multiprocessors: int
    max_instances: int


@dataclass(frozen=True, slots=True)
class ComputeProfile:
    """A profile of compute instances within one profile of GPU instances."""

    id: int
    compute_slices: int
    multiprocessors: int
    max_instances: int


def read_instance_profiles(gpu: object) -> Iterator[InstanceProfile]:
    """Raises pynvml.NVMLError."""
    for query in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, query)
        except NO_SUCH_PROFILE:
            continue
        name = info.name.decode() if isinstance(info.name, bytes) else info.name
        yield InstanceProfile(
            info.id,
            name.removeprefix("MIG "),
            info.sliceCount,
            info.multiprocessorCount,
            info.instanceCount,
        )


def read_compute_profiles(instance: object) -> Iterator[ComputeProfile]:
    """Raises pynvml.NVMLError."""
    for query in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, query, 0)
        except NO_SUCH_PROFILE:
            continue
        yield ComputeProfile(info.id, info.sliceCount, info.multiprocessorCount, info.instanceCount)


def full_width_profile(
    instance: InstanceProfile, offered: Iterable[ComputeProfile]
) -> ComputeProfile | None:
    """The compute profile that covers the whole of a GPU instance; None if none does.

    By slices and SM, not by number: the numbers are not widths (8 is a variant of 7 slices, 7 one
    of a single slice)."""
    alone = [profile for profile in offered if profile.max_instances == 1]
    full = [profile for profile in alone if profile.compute_slices == instance.compute_slices]
    exact = [profile for profile in full if profile.multiprocessors == instance.multiprocessors]
    return min(exact or full, key=lambda profile: profile.id, default=None)
