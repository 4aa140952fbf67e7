"""Reads the sensors of each GPU and MIG device.

Every number is read on its own: if one is refused, it is missing with a reason, and the others
are still reported.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pynvml

from agents.contract.telemetry import GpuSample, MissingReason, MissingValue, SliceSample
from agents.nvml.errors import NvmlFailure, nvml_errors
from agents.nvml.gpm import GpmActivity, MetricValues, all_missing, missing_counters, missing_reason
from agents.nvml.session import MIB, as_text

# nvmlFieldValue_t.scopeId for all NVLinks of a GPU together (nvml.h, fields 138 and 139).
ALL_LINKS = 0xFFFFFFFF
MAX_LINKS = pynvml.NVML_NVLINK_MAX_LINKS
# By name: the field that counts all links together in KiB, and the one of each link in bytes.
LINK_FIELDS = {
    "nvlink_sent_kib": (
        pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES,
    ),
    "nvlink_received_kib": (
        pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES,
    ),
}
# Which member of nvmlValue_t holds a number, by its nvmlValueType_t.
MEMBERS = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
# A driver that lacks a call, or this version of it, counts as one that does not support it.
TOO_OLD = (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch)


@dataclass(slots=True)
class _Sheet:
    """Numbers by field name, and the reasons of the missing ones."""

    numbers: dict[str, int] = field(default_factory=dict)
    missing: dict[str, MissingReason] = field(default_factory=dict)

    def put(self, answers: MetricValues) -> None:
        for name, answer in answers.items():
            if isinstance(answer, MissingReason):
                self.missing[name] = answer
            else:
                self.numbers[name] = answer

    def read(
        self, name: str, question: Callable[[], int], unsupported: MissingReason | None = None
    ) -> None:
        """`unsupported`: a more precise reason to give for NOT_SUPPORTED."""
        try:
            with nvml_errors(name):
                self.numbers[name] = _reading(question)
        except NvmlFailure as failure:
            reason = missing_reason(failure)
            self.missing[name] = (
                (unsupported or reason) if reason is MissingReason.NOT_SUPPORTED else reason
            )

    @property
    def absent(self) -> tuple[MissingValue, ...]:
        return tuple(MissingValue(name, reason) for name, reason in sorted(self.missing.items()))


class Sensors:
    """Has its own NVML session, so that ending it does not affect other users of NVML."""

    def __init__(self) -> None:
        with nvml_errors("NVML does not start"):
            pynvml.nvmlInit()
        self._activity = GpmActivity()

    def close(self) -> None:
        self._activity.close()
        with nvml_errors("NVML does not stop"):
            pynvml.nvmlShutdown()

    def sample(self) -> tuple[GpuSample, ...]:
        """A sample of every GPU that answers, by index. Raises NvmlFailure if NVML is away."""
        with nvml_errors("count of GPUs"):
            count = pynvml.nvmlDeviceGetCount()
        samples = []
        for index in range(count):
            with contextlib.suppress(NvmlFailure):
                samples.append(self._gpu(index))
        self._activity.sweep()
        return tuple(samples)

    def _gpu(self, index: int) -> GpuSample:
        with nvml_errors(f"GPU {index}"):
            gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = as_text(pynvml.nvmlDeviceGetUUID(gpu))
            is_mig = _is_mig(gpu)
        lacks = missing_counters(gpu)
        sheet = _Sheet()
        _memory(sheet, gpu)
        _sensors(sheet, gpu, is_mig=is_mig)
        _nvlink(sheet, gpu)
        if is_mig or lacks:
            sheet.put(all_missing(lacks or MissingReason.MIG_MODE))
        else:
            sheet.put(self._activity.of_gpu(gpu, uuid))
        slices = tuple(self._slices(gpu, uuid, lacks)) if is_mig else ()
        return GpuSample(uuid=uuid, slices=slices, missing=sheet.absent, **sheet.numbers)

    def _slices(
        self, gpu: object, gpu_uuid: str, lacks: MissingReason | None
    ) -> Iterator[SliceSample]:
        """MIG devices by index; an index without one is a hole, not the end."""
        with nvml_errors(f"MIG devices of {gpu_uuid}"):
            max_devices = pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)
        for index in range(max_devices):
            with contextlib.suppress(NvmlFailure):
                yield self._slice(gpu, gpu_uuid, index, lacks)

    def _slice(
        self, gpu: object, gpu_uuid: str, index: int, lacks: MissingReason | None
    ) -> SliceSample:
        with nvml_errors(f"MIG device {index} of {gpu_uuid}"):
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
            uuid = as_text(pynvml.nvmlDeviceGetUUID(device))
            instance = int(pynvml.nvmlDeviceGetGpuInstanceId(device))
            profile = as_text(pynvml.nvmlDeviceGetName(device)).rpartition("MIG ")[2]
        sheet = _Sheet()
        _memory(sheet, device)
        if lacks:
            sheet.put(all_missing(lacks))
        else:
            sheet.put(self._activity.of_instance(gpu, gpu_uuid, instance, uuid))
        return SliceSample(
            uuid=uuid,
            instance=instance,
            profile=profile[:32],
            missing=sheet.absent,
            **sheet.numbers,
        )


def _memory(sheet: _Sheet, device: Any) -> None:
    """Without the driver's own reserve if it reports that separately (version 2)."""
    try:
        with nvml_errors("memory"):
            try:
                info = pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2)
            except (*TOO_OLD, pynvml.NVMLError_NotSupported):
                info = pynvml.nvmlDeviceGetMemoryInfo(device)
    except NvmlFailure as failure:
        sheet.put(dict.fromkeys(("memory_used_mib", "memory_total_mib"), missing_reason(failure)))
        return
    sheet.put({"memory_used_mib": info.used // MIB, "memory_total_mib": info.total // MIB})


def _sensors(sheet: _Sheet, gpu: Any, *, is_mig: bool) -> None:
    clock, memory = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
    rates = pynvml.nvmlDeviceGetUtilizationRates
    unsupported = MissingReason.MIG_MODE if is_mig else None
    sheet.read("utilization_percent", lambda: rates(gpu).gpu, unsupported)
    sheet.read("memory_busy_percent", lambda: rates(gpu).memory, unsupported)
    sheet.read("temperature_c", lambda: _temperature(gpu))
    sheet.read("memory_temperature_c", lambda: _field(gpu, pynvml.NVML_FI_DEV_MEMORY_TEMP))
    sheet.read("power_mw", lambda: pynvml.nvmlDeviceGetPowerUsage(gpu))
    sheet.read("power_limit_mw", lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu))
    sheet.read("energy_mj", lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu))
    sheet.read("sm_clock_mhz", lambda: pynvml.nvmlDeviceGetClockInfo(gpu, clock))
    sheet.read("memory_clock_mhz", lambda: pynvml.nvmlDeviceGetClockInfo(gpu, memory))
    sheet.read("event_reasons", lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))


def _temperature(gpu: Any) -> int:
    sensor = pynvml.NVML_TEMPERATURE_GPU
    try:
        return int(pynvml.nvmlDeviceGetTemperatureV(gpu, sensor))
    except (*TOO_OLD, pynvml.NVMLError_NotSupported):
        return int(pynvml.nvmlDeviceGetTemperature(gpu, sensor))


def _nvlink(sheet: _Sheet, gpu: Any) -> None:
    for name, (together, each) in LINK_FIELDS.items():
        sheet.read(name, partial(_over_links, gpu, together, each))


def _over_links(gpu: Any, together: int, each: int) -> int:
    """KiB over all links: from the field that counts them together, else link by link."""
    try:
        return _field(gpu, together, ALL_LINKS)
    except pynvml.NVMLError_NotSupported:
        fields = [(each, link) for link in range(MAX_LINKS)]
        values = pynvml.nvmlDeviceGetFieldValues(gpu, fields)
        numbers = [_number(v) for v in values if v.nvmlReturn == pynvml.NVML_SUCCESS]
        if not numbers:
            raise
        return sum(numbers) // 1024


def _field(gpu: Any, number: int, scope: int = 0) -> int:
    """Each field has its own return code. Raises pynvml.NVMLError."""
    (value,) = pynvml.nvmlDeviceGetFieldValues(gpu, [(number, scope)])
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(value.nvmlReturn)
    return _number(value)


def _number(value: Any) -> int:
    return int(getattr(value.value, MEMBERS.get(value.valueType, "ullVal")))


def _reading(question: Callable[[], int]) -> int:
    try:
        return int(question())
    except TOO_OLD:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED) from None


def _is_mig(gpu: Any) -> bool:
    try:
        return bool(pynvml.nvmlDeviceGetMigMode(gpu)[0])
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return False
