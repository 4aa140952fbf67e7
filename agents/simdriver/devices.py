"""C symbols about whole devices: inventory, memory, sensors, processes."""

from collections.abc import Callable
from typing import Any

from agents.simdriver.codes import Code, DriverError
from agents.simdriver.compute import device_name
from agents.simdriver.handles import Ref, compute_of, gpu_of
from agents.simdriver.state import COMPUTE_WIDTHS, SimulatedGpu, SimulatedNode, SimulatedProcess

MIB = 1 << 20
# struct version word = size | version << 24, as nvml.h builds it.
MEMORY_V2 = 0x02000028
ARCHITECTURES = {"turing": 6, "ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}
NO_INSTANCE = 0xFFFFFFFF


def _gpu(library: Any, handle: Any) -> SimulatedGpu:
    """The whole GPU behind a device handle, also that of a MIG device."""
    return gpu_of(library.store.node(), library.handles.ref(handle))


def _count(library: Any, out: Any) -> None:
    out._obj.value = len(library.store.node().gpus)


def _by_index(library: Any, index: Any, out: Any) -> None:
    gpus = library.store.node().gpus
    if index.value >= len(gpus):
        raise DriverError(Code.INVALID_ARGUMENT)
    _hand_out(library, gpus[index.value], out)


def _by_uuid(library: Any, uuid: Any, out: Any) -> None:
    wanted = uuid.value.decode()
    node: SimulatedNode = library.store.node()
    for gpu in node.gpus:
        if gpu.uuid == wanted:
            _hand_out(library, gpu, out)
            return
        for instance in gpu.instances:
            for compute in instance.compute:
                if compute.uuid == wanted:
                    ref = Ref(gpu.uuid, instance.id, compute.id, compute.uuid)
                    library.handles.give(out, ref)
                    return
    raise DriverError(Code.NOT_FOUND)


def _by_bus_id(library: Any, bus_id: Any, out: Any) -> None:
    wanted = bus_id.value.decode().upper()
    for gpu in library.store.node().gpus:
        if gpu.pci_bus_id == wanted:
            _hand_out(library, gpu, out)
            return
    raise DriverError(Code.NOT_FOUND)


def _hand_out(library: Any, gpu: SimulatedGpu, out: Any) -> None:
    if gpu.lost:
        raise DriverError(Code.GPU_IS_LOST)
    library.handles.give(out, Ref(gpu.uuid))


def _name(library: Any, handle: Any, buffer: Any, size: Any) -> None:
    """Of a MIG device with its profile, such as "NVIDIA H200 MIG 1g.18gb"."""
    ref = library.handles.ref(handle)
    node = library.store.node()
    name = gpu_of(node, ref).kind.product_names[0]
    if ref.gpu_instance is not None:
        gpu, instance, compute = compute_of(node, ref)
        width = COMPUTE_WIDTHS[compute.profile_id]
        name = f"{name} MIG {device_name(gpu, instance, width)}"
    buffer.value = name.encode()


def _uuid(library: Any, handle: Any, buffer: Any, size: Any) -> None:
    ref = library.handles.ref(handle)
    gpu_of(library.store.node(), ref)
    buffer.value = (ref.uuid or ref.gpu).encode()


def _index(library: Any, handle: Any, out: Any) -> None:
    out._obj.value = _gpu(library, handle).index


def _pci(library: Any, handle: Any, out: Any) -> None:
    gpu = _gpu(library, handle)
    info = out._obj
    info.busIdLegacy = gpu.pci_bus_id[4:].encode()
    info.busId = gpu.pci_bus_id.encode()
    info.domain, info.bus, info.device = 0, int(gpu.pci_bus_id[9:11], 16), 0


def _memory(library: Any, handle: Any, out: Any) -> None:
    total, used = _amounts(library, handle)
    out._obj.total, out._obj.used, out._obj.free = total, used, total - used


def _memory_v2(library: Any, handle: Any, out: Any) -> None:
    if out._obj.version != MEMORY_V2:
        raise DriverError(Code.ARGUMENT_VERSION_MISMATCH)
    _memory(library, handle, out)
    out._obj.reserved = 0


def _amounts(library: Any, handle: Any) -> tuple[int, int]:
    """Total and used bytes of a GPU, or of one MIG instance by its own handle."""
    ref = library.handles.ref(handle)
    gpu = gpu_of(library.store.node(), ref)
    instance = gpu.instance(ref.gpu_instance) if ref.gpu_instance is not None else None
    processes = gpu.processes
    total = gpu.kind.memory_mib
    if instance is not None:
        profile = gpu.kind.profile_by_id(instance.profile_id)
        total = profile.memory_mib if profile else 0
        processes = [p for p in processes if p.gpu_instance == instance.id]
    return total * MIB, sum(p.memory_mib for p in processes) * MIB


def _minor(library: Any, handle: Any, out: Any) -> None:
    out._obj.value = _gpu(library, handle).index


def _architecture(library: Any, handle: Any, out: Any) -> None:
    out._obj.value = ARCHITECTURES.get(_gpu(library, handle).kind.architecture, NO_INSTANCE)


def _compute_capability(library: Any, handle: Any, major: Any, minor: Any) -> None:
    first, second = _gpu(library, handle).kind.compute_capability.split(".")
    major._obj.value, minor._obj.value = int(first), int(second)


def _processes(library: Any, handle: Any, count: Any, infos: Any) -> None:
    """All of them; a call of its own lists the clients of MPS."""
    _list(library, handle, count, infos, lambda process: True)


def _mps_processes(library: Any, handle: Any, count: Any, infos: Any) -> None:
    _list(library, handle, count, infos, lambda process: process.mps)


def _graphics_processes(library: Any, handle: Any, count: Any, infos: Any) -> None:
    """Nobody draws on a simulated GPU."""
    _list(library, handle, count, infos, lambda process: False)


def _list(
    library: Any, handle: Any, count: Any, infos: Any, wanted: Callable[[SimulatedProcess], bool]
) -> None:
    ref = library.handles.ref(handle)
    gpu = gpu_of(library.store.node(), ref)
    seen = [p for p in gpu.processes if p.listed and _is_on(p, ref) and wanted(p)]
    room = count._obj.value if infos is not None else 0
    count._obj.value = len(seen)
    if len(seen) > room:
        raise DriverError(Code.INSUFFICIENT_SIZE)
    for slot, process in zip(infos or (), seen, strict=False):
        slot.pid = process.pid
        slot.usedGpuMemory = process.memory_mib * MIB
        slot.gpuInstanceId = _or_none(process.gpu_instance)
        slot.computeInstanceId = _or_none(process.compute_instance)


def _is_on(process: SimulatedProcess, ref: Ref) -> bool:
    """A GPU has the processes of all its instances, a MIG device its own."""
    place = process.gpu_instance, process.compute_instance
    return ref.gpu_instance is None or place == (ref.gpu_instance, ref.compute_instance)


def _or_none(instance: int | None) -> int:
    return NO_INSTANCE if instance is None else instance


DEVICE_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetCount_v2": _count,
    "nvmlDeviceGetHandleByIndex_v2": _by_index,
    "nvmlDeviceGetHandleByUUID": _by_uuid,
    "nvmlDeviceGetHandleByPciBusId_v2": _by_bus_id,
    "nvmlDeviceGetName": _name,
    "nvmlDeviceGetUUID": _uuid,
    "nvmlDeviceGetIndex": _index,
    "nvmlDeviceGetMinorNumber": _minor,
    "nvmlDeviceGetPciInfo_v3": _pci,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetMemoryInfo_v2": _memory_v2,
    "nvmlDeviceGetArchitecture": _architecture,
    "nvmlDeviceGetCudaComputeCapability": _compute_capability,
    "nvmlDeviceGetComputeRunningProcesses_v3": _processes,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": _mps_processes,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": _graphics_processes,
}
