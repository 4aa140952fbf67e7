"""C symbols about compute instances: their profiles and places within a GPU instance."""

from collections.abc import Callable
from typing import Any

from agents.simdriver import driver
from agents.simdriver.codes import Code, DriverError
from agents.simdriver.handles import Ref, compute_of, instance_of, items, put, put_field
from agents.simdriver.state import COMPUTE_WIDTHS, ComputeInstance, GpuInstance, SimulatedGpu

CI_PROFILE_V2 = 0x02000088
CI_PROFILE_COUNT = 0x9


def _instance(library: Any, handle: Any) -> tuple[SimulatedGpu, GpuInstance]:
    return instance_of(library.store.node(), library.handles.ref(handle))


def compute_ref(gpu: SimulatedGpu, instance: GpuInstance, compute: ComputeInstance) -> Ref:
    return Ref(gpu.uuid, instance.id, compute.id, compute.uuid)


def multiprocessors(gpu: SimulatedGpu, instance: GpuInstance, width: int) -> int:
    """All of the GPU instance's at full width, else so many times those of a 1g: boards.json."""
    profile = driver.require_profile(gpu, instance.profile_id)
    if width == profile.compute_slices:
        return profile.multiprocessors
    return width * next(p.multiprocessors for p in gpu.kind.profiles if p.query_index == 0)


def device_name(gpu: SimulatedGpu, instance: GpuInstance, width: int) -> str:
    """Such as "1g.18gb", or "1c.3g.71gb" where it is not the whole of its GPU instance."""
    profile = driver.require_profile(gpu, instance.profile_id)
    return profile.name if width == profile.compute_slices else f"{width}c.{profile.name}"


def _profile(library: Any, handle: Any, query: int, engine: int, out: Any) -> str:
    """Query index and profile id are one number here. The name, for those who have room for it."""
    gpu, instance = _instance(library, handle)
    if not 0 <= query < CI_PROFILE_COUNT or engine != 0:
        raise DriverError(Code.INVALID_ARGUMENT)
    known = driver.compute_profiles(gpu, instance)
    if query not in known:
        raise DriverError(Code.NOT_SUPPORTED)
    profile = driver.require_profile(gpu, instance.profile_id)
    width, most = known[query]
    info = out._obj
    info.id, info.sliceCount, info.instanceCount = query, width, most
    info.multiprocessorCount = multiprocessors(gpu, instance, width)
    info.sharedCopyEngineCount = profile.copy_engines
    info.sharedDecoderCount = profile.decoders
    info.sharedEncoderCount = profile.encoders
    info.sharedJpegCount = profile.jpeg_engines
    info.sharedOfaCount = profile.ofa_engines
    return device_name(gpu, instance, width)


def _profile_info(library: Any, handle: Any, query: int, engine: int, out: Any) -> None:
    _profile(library, handle, query, engine, out)


def _profile_info_v(library: Any, handle: Any, query: int, engine: int, out: Any) -> None:
    if out._obj.version != CI_PROFILE_V2:
        raise DriverError(Code.ARGUMENT_VERSION_MISMATCH)
    out._obj.name = f"MIG {_profile(library, handle, query, engine, out)}".encode()


def _placements(library: Any, handle: Any, profile_id: int, array: Any, count: Any) -> None:
    gpu, instance = _instance(library, handle)
    starts = driver.compute_starts(gpu, instance, profile_id)
    room = count._obj.value
    count._obj.value = len(starts)
    if array is None:
        return
    if room < len(starts):
        raise DriverError(Code.INSUFFICIENT_SIZE)
    for slot, start in zip(items(array), starts, strict=False):
        slot.start, slot.size = start, COMPUTE_WIDTHS[profile_id]


def _capacity(library: Any, handle: Any, profile_id: int, out: Any) -> None:
    gpu, instance = _instance(library, handle)
    out._obj.value = len(driver.free_compute_starts(gpu, instance, profile_id))


def _create(library: Any, handle: Any, profile_id: int, out: Any) -> None:
    _make(library, handle, profile_id, None, out)


def _create_placed(library: Any, handle: Any, profile_id: int, placement: Any, out: Any) -> None:
    if placement is None:
        raise DriverError(Code.INVALID_ARGUMENT)
    _make(library, handle, profile_id, placement._obj, out)


def _make(library: Any, handle: Any, profile_id: int, place: Any, out: Any) -> None:
    ref = library.handles.ref(handle)
    with library.store.change() as node:
        gpu, instance = instance_of(node, ref)
        if place is not None and place.size != driver.compute_width(gpu, instance, profile_id):
            raise DriverError(Code.INVALID_ARGUMENT)
        start = None if place is None else place.start
        made = driver.create_compute_instance(node, gpu, instance, profile_id, start)
        library.handles.give(out, compute_ref(gpu, instance, made))


def _destroy(library: Any, handle: Any) -> None:
    ref = library.handles.ref(handle)
    with library.store.change() as node:
        driver.destroy_compute_instance(node, *compute_of(node, ref))


def _list(library: Any, handle: Any, profile_id: int, array: Any, count: Any) -> None:
    gpu, instance = _instance(library, handle)
    driver.compute_width(gpu, instance, profile_id)
    found = [c for c in instance.compute if c.profile_id == profile_id]
    count._obj.value = len(found)
    for index, compute in enumerate(found):
        put(library, array, index, compute_ref(gpu, instance, compute))


def _by_id(library: Any, handle: Any, compute_id: int, out: Any) -> None:
    gpu, instance = _instance(library, handle)
    for compute in instance.compute:
        if compute.id == compute_id:
            library.handles.give(out, compute_ref(gpu, instance, compute))
            return
    raise DriverError(Code.NOT_FOUND)


def _info(library: Any, handle: Any, out: Any) -> None:
    gpu, instance, compute = compute_of(library.store.node(), library.handles.ref(handle))
    info = out._obj
    info.id, info.profileId = compute.id, compute.profile_id
    info.placement.start = compute.start
    info.placement.size = COMPUTE_WIDTHS[compute.profile_id]
    # The MIG device's own handle: its UUID needs no walk.
    put_field(library, info, "device", compute_ref(gpu, instance, compute))
    put_field(library, info, "gpuInstance", Ref(gpu.uuid, instance.id))


def _attributes(library: Any, handle: Any, out: Any) -> None:
    """Of MIG devices only (nvml.h)."""
    gpu, instance, compute = compute_of(library.store.node(), library.handles.ref(handle))
    profile = driver.require_profile(gpu, instance.profile_id)
    width, found = COMPUTE_WIDTHS[compute.profile_id], out._obj
    found.multiprocessorCount = multiprocessors(gpu, instance, width)
    found.sharedCopyEngineCount = profile.copy_engines
    found.sharedDecoderCount = profile.decoders
    found.sharedEncoderCount = profile.encoders
    found.sharedJpegCount = profile.jpeg_engines
    found.sharedOfaCount = profile.ofa_engines
    found.gpuInstanceSliceCount = profile.compute_slices
    found.computeInstanceSliceCount = width
    found.memorySizeMB = profile.memory_mib


COMPUTE_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": _profile_info,
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": _profile_info_v,
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements": _placements,
    "nvmlGpuInstanceGetComputeInstanceRemainingCapacity": _capacity,
    "nvmlGpuInstanceCreateComputeInstance": _create,
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement": _create_placed,
    "nvmlComputeInstanceDestroy": _destroy,
    "nvmlGpuInstanceGetComputeInstances": _list,
    "nvmlGpuInstanceGetComputeInstanceById": _by_id,
    "nvmlComputeInstanceGetInfo_v2": _info,
    "nvmlDeviceGetAttributes_v2": _attributes,
}
