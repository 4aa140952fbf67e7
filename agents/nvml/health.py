"""Reads a GPU's health from NVML: events as they happen, and counters on request."""

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

import pynvml

from agents.facts.gpu_health import DriverEvent, EventKind, HealthReadings
from agents.facts.gpus import GpuFacts
from agents.nvml.errors import NvmlCode, NvmlFailure, nvml_errors
from agents.nvml.known_gpus import KnownGpus
from agents.nvml.session import as_text

KINDS = {
    pynvml.nvmlEventTypeXidCriticalError: EventKind.XID,
    pynvml.nvmlEventTypeDoubleBitEccError: EventKind.ECC_UNCORRECTED,
    pynvml.nvmlEventTypeSingleBitEccError: EventKind.ECC_CORRECTED,
}
# nvml.h: the event is not on an instance.
NO_INSTANCE = 0xFFFFFFFF
SILENT = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_InvalidArgument,
)


class EventSet:
    """An event set on every GPU that answers. It gets no events from before its creation (nvml.h).

    Only the event types that a board supports are registered: NVML refuses a registration with any
    other type as a whole.
    """

    def __init__(self) -> None:
        with nvml_errors("event set"):
            self._set = pynvml.nvmlEventSetCreate()
        self._uuids: dict[int, str] = {}
        try:
            with nvml_errors("count of GPUs"):
                count = pynvml.nvmlDeviceGetCount()
        except NvmlFailure:
            self.close()
            raise
        for index in range(count):
            with contextlib.suppress(NvmlFailure):
                self._register(index)

    @property
    def gpus(self) -> frozenset[str]:
        """UUIDs of the GPUs that are registered."""
        return frozenset(self._uuids.values())

    def wait(self, milliseconds: int) -> DriverEvent | None:
        """The next event; None after `milliseconds`, or for an event of another kind.

        Raises NvmlFailure; after GPU_LOST no event comes from this set any more.
        """
        with nvml_errors("waiting for events"):
            try:
                data = pynvml.nvmlEventSetWait_v2(self._set, milliseconds)
            except pynvml.NVMLError_Timeout:
                return None
        kind, uuid = KINDS.get(data.eventType), self._uuids.get(_address(data.device))
        if kind is None or uuid is None:
            return None
        return DriverEvent(
            gpu_uuid=uuid,
            kind=kind,
            xid=data.eventData if kind is EventKind.XID else 0,
            gpu_instance=_instance(data.gpuInstanceId),
            compute_instance=_instance(data.computeInstanceId),
        )

    def close(self) -> None:
        with nvml_errors("freeing the event set"):
            pynvml.nvmlEventSetFree(self._set)

    def _register(self, index: int) -> None:
        """Keeps the UUID by handle: a lost GPU does not answer, but can still be named."""
        with nvml_errors(f"events of GPU {index}"):
            gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
            types = sum(KINDS) & pynvml.nvmlDeviceGetSupportedEventTypes(gpu)
            if not types:
                return
            uuid = as_text(pynvml.nvmlDeviceGetUUID(gpu))
            pynvml.nvmlDeviceRegisterEvents(gpu, types, self._set)
        self._uuids[_address(gpu)] = uuid


def read_health(gpu: GpuFacts, known_gpus: KnownGpus | None = None) -> HealthReadings | None:
    """What NVML reports of this GPU now; None if it is no longer in the machine.

    `known_gpus`: the GPUs of a session. Any other GPU, and one whose handle does not answer any
    more, is found by its place on the bus: to find a UUID, NVML visits every GPU, and reports the
    GPU as lost if any of them is (nvml.h). A lost GPU and a silent driver are readings, not errors.
    """
    kept = known_gpus.find(gpu.uuid) if known_gpus else None
    if known_gpus is not None and kept is not None:
        with contextlib.suppress(NvmlFailure), nvml_errors(f"health of {gpu.uuid}"):
            return _readings(kept.handle)
        known_gpus.forget(gpu.uuid)
    try:
        with nvml_errors(f"health of {gpu.uuid}"):
            handle = _at_bus_id(gpu.pci_bus_id)
            if handle is None or as_text(pynvml.nvmlDeviceGetUUID(handle)) != gpu.uuid:
                return None
            return _readings(handle)
    except NvmlFailure as failure:
        if failure.code is NvmlCode.GPU_LOST:
            return HealthReadings(is_lost=True)
        return HealthReadings(driver_error=failure.reason)


def _at_bus_id(bus_id: str) -> object | None:
    """None if no GPU is there any more; from any other call that answer would be an error."""
    try:
        gpu: object = pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)
    except pynvml.NVMLError_NotFound:
        return None
    return gpu


def _readings(gpu: object) -> HealthReadings:
    rows = _optional(lambda: pynvml.nvmlDeviceGetRemappedRows(gpu))
    errors = _optional(
        lambda: pynvml.nvmlDeviceGetTotalEccErrors(
            gpu, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        )
    )
    return HealthReadings(
        remap_pending=bool(rows[2]) if rows else None,
        remap_failed=bool(rows[3]) if rows else None,
        uncorrected_errors=errors,
        recovery=_recovery(gpu),
        clock_reasons=_optional(lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)),
    )


def _recovery(gpu: object) -> int | None:
    field = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    values = _optional(lambda: pynvml.nvmlDeviceGetFieldValues(gpu, [field]))
    if not values or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return int(values[0].value.uiVal)


def _optional(question: Callable[[], Any]) -> Any:
    """None if the board or the driver does not support it."""
    try:
        return question()
    except SILENT:
        return None


def _address(handle: object) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _instance(number: int) -> int | None:
    return None if number == NO_INSTANCE else number
