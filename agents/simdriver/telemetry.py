"""C symbols of sensors and counters: utilisation, temperature, power, clocks, BAR1, field values.

NVML's rules (notes of nvml.h): utilisation is NOT_SUPPORTED on a MIG-enabled GPU; temperature,
power and clocks are the parent's only. Not verified on hardware: which code a MIG device gives for
them (INVALID_ARGUMENT here), and that Blackwell alone counts NVLink bytes by link (202, 204).
"""

from collections.abc import Callable
from typing import Any

from agents.simdriver import utilisation as load
from agents.simdriver.codes import Code, DriverError
from agents.simdriver.handles import gpu_of
from agents.simdriver.state import SimulatedGpu, SimulatedNode

MIB = 1 << 20
TEMPERATURE_V1 = 0x0100000C
SENSOR_GPU = 0
CLOCK_MEMORY, CLOCK_COUNT = 2, 4
PSTATE_BUSY = 0
REASON_IDLE, REASON_POWER_CAP = 0x1, 0x4
# Above this activity a board runs into its power limit.
CAPPED = 0.9
ALL_LINKS = 0xFFFFFFFF
UNSIGNED_INT, UNSIGNED_LONG_LONG = 1, 3
IDLE_BAR1, PROCESS_BAR1 = 1 * MIB, 2 * MIB


def gpu_with_time(library: Any, handle: Any) -> tuple[SimulatedNode, SimulatedGpu, float]:
    """The GPU and the time; a MIG device is refused."""
    ref = library.handles.ref(handle)
    if ref.gpu_instance is not None:
        raise DriverError(Code.INVALID_ARGUMENT)
    node = library.store.node()
    return node, gpu_of(node, ref), library.meters.clock()


def gpu_without_mig(library: Any, handle: Any) -> tuple[SimulatedGpu, float]:
    ref = library.handles.ref(handle)
    gpu = gpu_of(library.store.node(), ref)
    if gpu.mig_current or ref.gpu_instance is not None:
        raise DriverError(Code.NOT_SUPPORTED)
    return gpu, library.meters.clock()


def _utilization(library: Any, handle: Any, out: Any) -> None:
    gpu, now = gpu_without_mig(library, handle)
    busy = load.activity(gpu, now)
    out._obj.gpu, out._obj.memory = round(100 * busy), round(45 * busy)


def _process_utilization(
    library: Any, handle: Any, samples: Any, count: Any, last_seen: Any
) -> None:
    """Of processes that worked since `last_seen` (microseconds). NOT_FOUND where none did."""
    gpu, now = gpu_without_mig(library, handle)
    stamp = round(now * 1e6)
    seen = [p for p in gpu.processes if p.listed] if stamp > last_seen.value else []
    if not seen:
        raise DriverError(Code.NOT_FOUND)
    room = count._obj.value if samples is not None else 0
    count._obj.value = len(seen)
    if len(seen) > room:
        raise DriverError(Code.INSUFFICIENT_SIZE)
    for slot, process in zip(samples, seen, strict=False):
        busy = load.work_of(process, now)
        slot.pid, slot.timeStamp = process.pid, stamp
        slot.smUtil, slot.memUtil, slot.encUtil, slot.decUtil = round(100 * busy), 0, 0, 0


def _temperature(library: Any, handle: Any, sensor: Any, out: Any) -> None:
    out._obj.value = _celsius(library, handle, sensor.value)


def _temperature_v(library: Any, handle: Any, out: Any) -> None:
    if out._obj.version != TEMPERATURE_V1:
        raise DriverError(Code.ARGUMENT_VERSION_MISMATCH)
    out._obj.temperature = _celsius(library, handle, out._obj.sensorType)


def _celsius(library: Any, handle: Any, sensor: int) -> int:
    _, gpu, now = gpu_with_time(library, handle)
    if sensor != SENSOR_GPU:
        raise DriverError(Code.INVALID_ARGUMENT)
    return load.celsius(gpu, now)


def _power(library: Any, handle: Any, out: Any) -> None:
    _, gpu, now = gpu_with_time(library, handle)
    out._obj.value = load.milliwatts(gpu, now)


def _power_limit(library: Any, handle: Any, out: Any) -> None:
    _, gpu, _ = gpu_with_time(library, handle)
    out._obj.value = gpu.power_limit_mw or load.board_figures(gpu).watts * 1_000


def _energy(library: Any, handle: Any, out: Any) -> None:
    node, gpu, _ = gpu_with_time(library, handle)
    out._obj.value = int(library.meters.read(node, gpu).energy_mj)


def _clock(library: Any, handle: Any, kind: Any, out: Any) -> None:
    gpu, now, is_memory = _clocked(library, handle, kind)
    out._obj.value = load.board_figures(gpu).memory_mhz if is_memory else load.sm_mhz(gpu, now)


def _max_clock(library: Any, handle: Any, kind: Any, out: Any) -> None:
    gpu, _, is_memory = _clocked(library, handle, kind)
    board = load.board_figures(gpu)
    out._obj.value = board.memory_mhz if is_memory else board.sm_mhz


def _clocked(library: Any, handle: Any, kind: Any) -> tuple[SimulatedGpu, float, bool]:
    """All but the memory's run as the SMs do here."""
    _, gpu, now = gpu_with_time(library, handle)
    if not 0 <= kind.value < CLOCK_COUNT:
        raise DriverError(Code.INVALID_ARGUMENT)
    return gpu, now, kind.value == CLOCK_MEMORY


def _event_reasons(library: Any, handle: Any, out: Any) -> None:
    _, gpu, now = gpu_with_time(library, handle)
    busy = load.activity(gpu, now)
    capped = REASON_POWER_CAP if busy > CAPPED else 0
    out._obj.value = capped if busy else REASON_IDLE


def _performance_state(library: Any, handle: Any, out: Any) -> None:
    """Data-centre boards stay in P0, idle or not."""
    gpu_with_time(library, handle)
    out._obj.value = PSTATE_BUSY


def _bar1(library: Any, handle: Any, out: Any) -> None:
    """The next power of two above the memory; an instance has its memory slices' part of it, as
    nvidia-smi prints of an A100 in MIG mode."""
    ref = library.handles.ref(handle)
    gpu = gpu_of(library.store.node(), ref)
    total = MIB << gpu.kind.memory_mib.bit_length()
    processes = gpu.processes
    if ref.gpu_instance is not None:
        instance = gpu.instance(ref.gpu_instance)
        if instance is None:
            raise DriverError(Code.INVALID_ARGUMENT)
        total = total * instance.size // gpu.kind.memory_slices
        processes = [p for p in processes if p.gpu_instance == instance.id]
    used = IDLE_BAR1 + PROCESS_BAR1 * len(processes)
    out._obj.bar1Total, out._obj.bar1Used, out._obj.bar1Free = total, used, total - used


def _links_field(library: Any, node: SimulatedNode, gpu: SimulatedGpu, scope: int) -> int:
    """KiB over one link, or over all of them. The same both ways: what is sent is received."""
    kib = library.meters.read(node, gpu).link_kib
    if scope == ALL_LINKS and load.live_links(node, gpu):
        return int(sum(kib.values()))
    if scope not in load.live_links(node, gpu):
        raise DriverError(Code.NOT_SUPPORTED)
    return int(kib[scope])


def _link_bytes_field(library: Any, node: SimulatedNode, gpu: SimulatedGpu, scope: int) -> int:
    if gpu.kind.architecture != "blackwell" or scope == ALL_LINKS:
        raise DriverError(Code.NOT_SUPPORTED)
    return _links_field(library, node, gpu, scope) * 1024


def _memory_temperature_field(
    library: Any, node: SimulatedNode, gpu: SimulatedGpu, scope: int
) -> int:
    """Boards with GDDR memory do not tell it."""
    if gpu.kind.architecture in ("ada", "turing"):
        raise DriverError(Code.NOT_SUPPORTED)
    return load.celsius(gpu, library.meters.clock()) + 6


def _energy_field(library: Any, node: SimulatedNode, gpu: SimulatedGpu, scope: int) -> int:
    return int(library.meters.read(node, gpu).energy_mj)


# By field number: the value's type, and how it is read. nvmlDeviceGetFieldValues asks here.
FIELDS: dict[int, tuple[int, Callable[[Any, SimulatedNode, SimulatedGpu, int], int]]] = {
    82: (UNSIGNED_INT, _memory_temperature_field),
    83: (UNSIGNED_LONG_LONG, _energy_field),
    138: (UNSIGNED_LONG_LONG, _links_field),
    139: (UNSIGNED_LONG_LONG, _links_field),
    202: (UNSIGNED_LONG_LONG, _link_bytes_field),
    204: (UNSIGNED_LONG_LONG, _link_bytes_field),
}


def fill_field(library: Any, gpu: SimulatedGpu, value: Any) -> None:
    """One field's value and its own return code. What is not simulated is not supported."""
    value.nvmlReturn = Code.NOT_SUPPORTED
    if value.fieldId not in FIELDS:
        return
    kind, read = FIELDS[value.fieldId]
    try:
        number = read(library, library.store.node(), gpu, value.scopeId)
    except DriverError as refused:
        value.nvmlReturn = refused.code
        return
    value.nvmlReturn, value.valueType = Code.SUCCESS, kind
    value.value.ullVal = number  # little-endian: also its uiVal


TELEMETRY_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetUtilizationRates": _utilization,
    "nvmlDeviceGetProcessUtilization": _process_utilization,
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetTemperatureV": _temperature_v,
    "nvmlDeviceGetPowerUsage": _power,
    "nvmlDeviceGetEnforcedPowerLimit": _power_limit,
    "nvmlDeviceGetTotalEnergyConsumption": _energy,
    "nvmlDeviceGetClockInfo": _clock,
    "nvmlDeviceGetMaxClockInfo": _max_clock,
    "nvmlDeviceGetCurrentClocksEventReasons": _event_reasons,
    "nvmlDeviceGetPerformanceState": _performance_state,
    "nvmlDeviceGetBAR1MemoryInfo": _bar1,
}
