"""NVML's event sets, and what it reads of a GPU's health."""

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

import pynvml

from agents.facts.gpu_health import DriverEvent, EventKind, HealthReadings
from agents.facts.gpus import GpuFacts
from agents.nvml.errors import NvmlCode, NvmlFailure, nvml_errors
from agents.nvml.session import as_text

KINDS = {
    pynvml.nvmlEventTypeXidCriticalError: EventKind.XID,
    pynvml.nvmlEventTypeDoubleBitEccError: EventKind.ECC_UNCORRECTED,
    pynvml.nvmlEventTypeSingleBitEccError: EventKind.ECC_CORRECTED,
}
# nvml.h: no instance is meant.
NO_INSTANCE = 0xFFFFFFFF
SILENT = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_InvalidArgument,
)


class EventSet:
    """An event set on every GPU that answers. Events of before it was made are not heard (nvml.h).

    A board is asked which types it has: a registration with one that it has not is refused whole.
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
        """UUIDs of the GPUs that are listened to."""
        return frozenset(self._uuids.values())

    def wait(self, milliseconds: int) -> DriverEvent | None:
        """The next event; None after the time, or where it is of no kind that counts.

        Raises NvmlFailure, GPU_LOST among its codes: then no event comes from this set any more.
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
        """The UUID is kept by handle: a GPU that is lost can still be named, but not asked."""
        with nvml_errors(f"events of GPU {index}"):
            gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
            wanted = sum(KINDS) & pynvml.nvmlDeviceGetSupportedEventTypes(gpu)
            if not wanted:
                return
            uuid = as_text(pynvml.nvmlDeviceGetUUID(gpu))
            pynvml.nvmlDeviceRegisterEvents(gpu, wanted, self._set)
        self._uuids[_address(gpu)] = uuid


def read_health(gpu: GpuFacts) -> HealthReadings | None:
    """What NVML tells of this GPU now; None where it is no longer there.

    Asked by its place on the bus: to find a UUID, NVML looks at every GPU, and answers that one is
    lost when any of them is (nvml.h). That it is lost, or that the driver is silent, is an answer.
    """
    try:
        with nvml_errors(f"health of {gpu.uuid}"):
            handle = pynvml.nvmlDeviceGetHandleByPciBusId(gpu.pci_bus_id)
            is_it = as_text(pynvml.nvmlDeviceGetUUID(handle)) == gpu.uuid
            return _reads(handle) if is_it else None
    except NvmlFailure as failure:
        if failure.code is NvmlCode.NOT_FOUND:
            return None
        if failure.code is NvmlCode.GPU_LOST:
            return HealthReadings(is_lost=True)
        return HealthReadings(driver_error=str(failure.__cause__ or failure))


def _reads(gpu: object) -> HealthReadings:
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
    """None where the board or the driver has no answer."""
    try:
        return question()
    except SILENT:
        return None


def _address(handle: object) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _instance(number: int) -> int | None:
    return None if number == NO_INSTANCE else number
