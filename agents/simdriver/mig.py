"""C symbols about MIG: mode, profiles and placements, GPU instances, MIG devices."""

from collections.abc import Callable
from typing import Any

from agents.contract.boards import Profile
from agents.simdriver import driver
from agents.simdriver.codes import Code, DriverError
from agents.simdriver.compute import compute_ref
from agents.simdriver.handles import Ref, compute_of, gpu_of, instance_of, items, put, put_field
from agents.simdriver.state import ComputeInstance, GpuInstance, SimulatedGpu, SimulatedNode

GI_PROFILE_V2 = 0x02000098
GI_PROFILE_COUNT = 0x12


def _get_mode(library: Any, handle: Any, current: Any, pending: Any) -> None:
    gpu = gpu_of(library.store.node(), library.handles.ref(handle))
    if not gpu.kind.supports_mig:
        raise DriverError(Code.NOT_SUPPORTED)
    current._obj.value, pending._obj.value = gpu.mig_current, gpu.mig_pending


def _set_mode(library: Any, handle: Any, mode: int, status: Any) -> None:
    """The call succeeds even when the change does not: the status tells."""
    ref = library.handles.ref(handle)
    library.sleep(library.store.node().mode_seconds)
    with library.store.change() as node:
        status._obj.value = driver.set_mig_mode(node, gpu_of(node, ref), mode)


def _profile(library: Any, handle: Any, query: int) -> Profile:
    """By query index, which is not the profile's id."""
    gpu = gpu_of(library.store.node(), library.handles.ref(handle))
    if not 0 <= query < GI_PROFILE_COUNT:
        raise DriverError(Code.INVALID_ARGUMENT)
    driver.require_queries(gpu)
    for profile in gpu.kind.profiles:
        if profile.query_index == query:
            return profile
    raise DriverError(Code.NOT_SUPPORTED)


def _profile_info(library: Any, handle: Any, query: int, out: Any) -> None:
    _fill_profile(out._obj, _profile(library, handle, query))


def _profile_info_v(library: Any, handle: Any, query: int, out: Any) -> None:
    if out._obj.version != GI_PROFILE_V2:
        raise DriverError(Code.ARGUMENT_VERSION_MISMATCH)
    profile = _profile(library, handle, query)
    _fill_profile(out._obj, profile)
    out._obj.name = f"MIG {profile.name}".encode()


def _profile_info_by_id(library: Any, handle: Any, profile_id: int, out: Any) -> None:
    """By the profile's id, as nvidia-smi prints it."""
    if out._obj.version != GI_PROFILE_V2:
        raise DriverError(Code.ARGUMENT_VERSION_MISMATCH)
    gpu = gpu_of(library.store.node(), library.handles.ref(handle))
    driver.require_queries(gpu)
    profile = driver.require_profile(gpu, profile_id)
    _fill_profile(out._obj, profile)
    out._obj.name = f"MIG {profile.name}".encode()


def _fill_profile(info: Any, profile: Profile) -> None:
    info.id = profile.id
    info.isP2pSupported = 0
    info.sliceCount = profile.compute_slices
    info.instanceCount = profile.max_instances
    info.multiprocessorCount = profile.multiprocessors or 0
    info.copyEngineCount = profile.copy_engines
    info.decoderCount = profile.decoders
    info.encoderCount = profile.encoders
    info.jpegCount = profile.jpeg_engines
    info.ofaCount = profile.ofa_engines
    info.memorySizeMB = profile.memory_mib


def _placements(library: Any, handle: Any, profile_id: int, array: Any, count: Any) -> None:
    gpu = gpu_of(library.store.node(), library.handles.ref(handle))
    driver.require_queries(gpu)
    profile = driver.require_profile(gpu, profile_id)
    room = count._obj.value if array is not None else 0
    count._obj.value = len(profile.starts)
    if array is None:
        return
    if room < len(profile.starts):
        raise DriverError(Code.INSUFFICIENT_SIZE)
    for slot, start in zip(items(array), profile.starts, strict=False):
        slot.start, slot.size = start, profile.memory_slices


def _capacity(library: Any, handle: Any, profile_id: int, out: Any) -> None:
    gpu = gpu_of(library.store.node(), library.handles.ref(handle))
    out._obj.value = driver.remaining_capacity(gpu, profile_id)


def _create(library: Any, handle: Any, profile_id: int, out: Any) -> None:
    _make(library, handle, profile_id, None, out)


def _create_placed(library: Any, handle: Any, profile_id: int, placement: Any, out: Any) -> None:
    if placement is None:
        raise DriverError(Code.INVALID_ARGUMENT)
    _make(library, handle, profile_id, placement._obj, out)


def _make(library: Any, handle: Any, profile_id: int, place: Any, out: Any) -> None:
    ref = library.handles.ref(handle)
    start, size = (place.start, place.size) if place is not None else (None, None)
    library.sleep(library.store.node().create_seconds)
    with library.store.change() as node:
        gpu = gpu_of(node, ref)
        made = driver.create_gpu_instance(node, gpu, profile_id, start, size)
        library.handles.give(out, Ref(gpu.uuid, made.id))


def _destroy(library: Any, handle: Any) -> None:
    """Refused at once, or it takes its time, during which other threads see the handle vanish."""
    ref, node = library.handles.ref(handle), library.store.node()
    driver.require_destroyable(node, *instance_of(node, ref))
    with library.handles.vanishing(ref):
        library.sleep(node.destroy_seconds)
    with library.store.change() as node:
        driver.destroy_gpu_instance(node, *instance_of(node, ref))


def _list(library: Any, handle: Any, profile_id: int, array: Any, count: Any) -> None:
    gpu = gpu_of(library.store.node(), library.handles.ref(handle))
    driver.require_profile(gpu, profile_id)
    driver.require_mig(gpu)
    found = [i for i in gpu.instances if i.profile_id == profile_id]
    count._obj.value = len(found)
    for index, instance in enumerate(sorted(found, key=lambda i: i.id)):
        put(library, array, index, Ref(gpu.uuid, instance.id))


def _by_id(library: Any, handle: Any, instance_id: int, out: Any) -> None:
    gpu = gpu_of(library.store.node(), library.handles.ref(handle))
    # First the instance, then the mode, as driver 580 does on an H200.
    if gpu.instance(instance_id) is None:
        raise DriverError(Code.NOT_FOUND)
    library.handles.give(out, Ref(gpu.uuid, instance_id))


def _info(library: Any, handle: Any, out: Any) -> None:
    gpu, instance = instance_of(library.store.node(), library.handles.ref(handle))
    info = out._obj
    info.id, info.profileId = instance.id, instance.profile_id
    info.placement.start, info.placement.size = instance.start, instance.size
    put_field(library, info, "device", Ref(gpu.uuid))


def _max_devices(library: Any, handle: Any, out: Any) -> None:
    gpu = gpu_of(library.store.node(), library.handles.ref(handle))
    out._obj.value = gpu.kind.compute_slices if gpu.mig_current else 0


def _device_by_index(library: Any, handle: Any, index: Any, out: Any) -> None:
    """Ascending by GPU instance, then compute instance; beyond them nothing is found."""
    gpu = gpu_of(library.store.node(), library.handles.ref(handle))
    devices = _devices(gpu)
    if index.value >= len(devices):
        raise DriverError(Code.NOT_FOUND)
    library.handles.give(out, devices[index.value])


def _devices(gpu: SimulatedGpu) -> list[Ref]:
    return [
        compute_ref(gpu, instance, compute)
        for instance in sorted(gpu.instances, key=lambda i: i.id)
        for compute in sorted(instance.compute, key=lambda c: c.id)
    ]


def _parent(library: Any, handle: Any, out: Any) -> None:
    ref = library.handles.ref(handle)
    if ref.compute_instance is None:
        raise DriverError(Code.INVALID_ARGUMENT)
    library.handles.give(out, Ref(ref.gpu))


def _is_mig_device(library: Any, handle: Any, out: Any) -> None:
    out._obj.value = int(library.handles.ref(handle).compute_instance is not None)


def _instance_id(library: Any, handle: Any, out: Any) -> None:
    out._obj.value = _of_device(library, handle)[1].id


def _compute_id(library: Any, handle: Any, out: Any) -> None:
    out._obj.value = _of_device(library, handle)[2].id


def _of_device(library: Any, handle: Any) -> tuple[SimulatedGpu, GpuInstance, ComputeInstance]:
    node: SimulatedNode = library.store.node()
    return compute_of(node, library.handles.ref(handle))


MIG_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetMigMode": _get_mode,
    "nvmlDeviceSetMigMode": _set_mode,
    "nvmlDeviceGetGpuInstanceProfileInfo": _profile_info,
    "nvmlDeviceGetGpuInstanceProfileInfoV": _profile_info_v,
    "nvmlDeviceGetGpuInstanceProfileInfoByIdV": _profile_info_by_id,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": _placements,
    "nvmlDeviceGetGpuInstanceRemainingCapacity": _capacity,
    "nvmlDeviceCreateGpuInstance": _create,
    "nvmlDeviceCreateGpuInstanceWithPlacement": _create_placed,
    "nvmlGpuInstanceDestroy": _destroy,
    "nvmlDeviceGetGpuInstances": _list,
    "nvmlDeviceGetGpuInstanceById": _by_id,
    "nvmlGpuInstanceGetInfo": _info,
    "nvmlDeviceGetMaxMigDeviceCount": _max_devices,
    "nvmlDeviceGetMigDeviceHandleByIndex": _device_by_index,
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": _parent,
    "nvmlDeviceIsMigDeviceHandle": _is_mig_device,
    "nvmlDeviceGetGpuInstanceId": _instance_id,
    "nvmlDeviceGetComputeInstanceId": _compute_id,
}
