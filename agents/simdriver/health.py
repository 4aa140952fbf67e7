"""C symbols about health: ECC counters, row remapping, recovery action; and faults as commands.

Not verified on hardware: which event types a board without ECC has, and what the calls say of a
MIG device (INVALID_ARGUMENT here).
"""

from collections.abc import Callable
from typing import Any

from agents.simdriver.codes import Code, DriverError
from agents.simdriver.driver import queries_without_mode
from agents.simdriver.handles import gpu_of
from agents.simdriver.state import EVENT_TYPES, SimulatedEvent, SimulatedGpu, SimulatedNode
from agents.simdriver.telemetry import fill_field

CORRECTED, UNCORRECTED = 0, 1
VOLATILE, AGGREGATE = 0, 1
RECOVERY_ACTION, MIG_QUERIES = 230, 199
UNSIGNED_INT = 1
NO_ACTION, GPU_RESET, DRAIN_AND_RESET, BUS_RESET = 0, 1, 4, 6
XID_EVENT, MAX_EVENTS = 0x8, 256
XID_LOST, XIDS_UNCORRECTED, XID_REMAP, XID_REMAP_FAILED = 79, (48, 95), 63, 64
# What the driver itself then asks for (its XID 154); others leave it as it is.
ACTIONS = {46: GPU_RESET, 48: GPU_RESET, 64: GPU_RESET, 74: GPU_RESET, 79: BUS_RESET,
           95: DRAIN_AND_RESET, 119: GPU_RESET, 120: GPU_RESET}  # fmt: skip


def inject_xid(
    node: SimulatedNode,
    gpu: SimulatedGpu,
    xid: int,
    instance: int | None = None,
    compute: int | None = None,
) -> None:
    """The event, and what such an error leaves behind in the counters and on the bus.

    Raises ValueError where the GPU has no such instance."""
    found = gpu.instance(instance) if instance is not None else None
    known = [c.id for c in found.compute] if found else []
    if (instance is not None and found is None) or (compute is not None and compute not in known):
        raise ValueError(f"GPU {gpu.index} has no instance {instance} with compute {compute}")
    node.event_count += 1
    event = SimulatedEvent(node.event_count, gpu.uuid, XID_EVENT, xid, instance, compute)
    node.events = [*node.events, event][-MAX_EVENTS:]
    gpu.lost |= xid == XID_LOST
    gpu.remap_pending |= xid == XID_REMAP
    gpu.remap_failed |= xid == XID_REMAP_FAILED
    gpu.ecc_uncorrected += xid in XIDS_UNCORRECTED
    gpu.recovery_action = ACTIONS.get(xid, gpu.recovery_action)


def inject_lost(gpu: SimulatedGpu) -> None:
    gpu.lost = True
    gpu.recovery_action = BUS_RESET


def clear_health(node: SimulatedNode, gpu: SimulatedGpu) -> None:
    """What a reset does: back on the bus, counters at zero, and earlier events are not reported."""
    gpu.lost = gpu.remap_pending = gpu.remap_failed = False
    gpu.ecc_uncorrected, gpu.recovery_action = 0, NO_ACTION
    node.events = [event for event in node.events if event.gpu != gpu.uuid]


def physical_gpu(library: Any, handle: Any) -> SimulatedGpu:
    """The whole GPU; a MIG device is refused."""
    ref = library.handles.ref(handle)
    if ref.gpu_instance is not None:
        raise DriverError(Code.INVALID_ARGUMENT)
    return gpu_of(library.store.node(), ref)


def _supported_events(library: Any, handle: Any, out: Any) -> None:
    out._obj.value = physical_gpu(library, handle).event_types & EVENT_TYPES


def _ecc_errors(library: Any, handle: Any, kind: Any, counter: Any, out: Any) -> None:
    gpu = physical_gpu(library, handle)
    if kind.value not in (CORRECTED, UNCORRECTED) or counter.value not in (VOLATILE, AGGREGATE):
        raise DriverError(Code.INVALID_ARGUMENT)
    out._obj.value = gpu.ecc_uncorrected if kind.value == UNCORRECTED else gpu.ecc_corrected


def _remapped(
    library: Any, handle: Any, corrected: Any, uncorrected: Any, pending: Any, failed: Any
) -> None:
    """nvml.h: not while MIG instances stand."""
    gpu = physical_gpu(library, handle)
    if gpu.instances:
        raise DriverError(Code.NOT_SUPPORTED)
    corrected._obj.value, uncorrected._obj.value = 0, int(gpu.remap_pending or gpu.remap_failed)
    pending._obj.value, failed._obj.value = int(gpu.remap_pending), int(gpu.remap_failed)


def _fields(library: Any, handle: Any, count: Any, values: Any) -> None:
    """Each field has its own return code; those that are not simulated are not supported."""
    gpu = physical_gpu(library, handle)
    if count.value < 1:
        raise DriverError(Code.INVALID_ARGUMENT)
    told = {RECOVERY_ACTION: gpu.recovery_action, MIG_QUERIES: int(queries_without_mode(gpu))}
    for value in values._obj:
        if value.fieldId not in told:
            fill_field(library, gpu, value)
            continue
        value.nvmlReturn = Code.SUCCESS
        value.valueType, value.value.uiVal = UNSIGNED_INT, told[value.fieldId]


HEALTH_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetSupportedEventTypes": _supported_events,
    "nvmlDeviceGetTotalEccErrors": _ecc_errors,
    "nvmlDeviceGetRemappedRows": _remapped,
    "nvmlDeviceGetFieldValues": _fields,
}
