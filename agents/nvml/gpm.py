"""Activity from GPM, NVML's performance counters: Hopper and newer, also for one MIG instance.

A metric is the mean between two samples of one device. The previous sample of each device is kept,
so that a reading takes one sample and does not wait.
"""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import pynvml

from agents.contract.telemetry import MissingReason
from agents.nvml.errors import NvmlCode, NvmlFailure, nvml_errors

METRICS = {
    "active_percent": pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    "sm_active_percent": pynvml.NVML_GPM_METRIC_SM_UTIL,
}
NO_COUNTERS = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound)

# The GPU's UUID, the GPU instance's id or None, and the UUID of what is measured.
Key = tuple[str, int | None, str]
MetricValues = dict[str, int | MissingReason]


def missing_counters(gpu: object) -> MissingReason | None:
    """Why this GPU has no GPM; None if it has. Raises NvmlFailure."""
    with nvml_errors("GPM support"):
        try:
            if pynvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
                return None
        except NO_COUNTERS:
            pass
        older = pynvml.nvmlDeviceGetArchitecture(gpu) < pynvml.NVML_DEVICE_ARCH_HOPPER
    return MissingReason.ARCHITECTURE if older else MissingReason.NOT_SUPPORTED


def all_missing(why: MissingReason) -> MetricValues:
    return dict.fromkeys(METRICS, why)


class GpmActivity:
    """The samples of one session. Call `sweep` after each reading and `close` before the session
    ends."""

    def __init__(self) -> None:
        self._before: dict[Key, Any] = {}
        self._requested: set[Key] = set()

    def of_gpu(self, gpu: object, uuid: str) -> MetricValues:
        """The activity of a GPU that is not in MIG mode."""
        return self._since((uuid, None, uuid), lambda s: pynvml.nvmlGpmSampleGet(gpu, s))

    def of_instance(self, gpu: object, gpu_uuid: str, instance: int, uuid: str) -> MetricValues:
        """The activity of the MIG device `uuid`. A re-created one has another UUID."""
        return self._since(
            (gpu_uuid, instance, uuid), lambda s: pynvml.nvmlGpmMigSampleGet(gpu, instance, s)
        )

    def sweep(self) -> None:
        """Free the samples of devices that were not read since the last sweep: they are gone."""
        for key in set(self._before) - self._requested:
            self._free(self._before.pop(key))
        self._requested.clear()

    def close(self) -> None:
        self._requested.clear()
        self.sweep()

    def _since(self, key: Key, take: Callable[[Any], Any]) -> MetricValues:
        """In percent of the time since the previous sample of this key, or why it is missing."""
        self._requested.add(key)
        before = self._before.pop(key, None)
        try:
            now = self._sample(take)
            self._before[key] = now
            return self._means(before, now) if before else all_missing(MissingReason.FIRST_SAMPLE)
        except NvmlFailure as failure:
            return all_missing(missing_reason(failure))
        finally:
            if before:
                self._free(before)

    def _sample(self, take: Callable[[Any], Any]) -> Any:
        with nvml_errors("GPM sample"):
            sample = pynvml.nvmlGpmSampleAlloc()
            try:
                take(sample)
            except pynvml.NVMLError:
                pynvml.nvmlGpmSampleFree(sample)
                raise
            return sample

    def _means(self, before: Any, now: Any) -> MetricValues:
        query = pynvml.c_nvmlGpmMetricsGet_t()
        query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        query.numMetrics = len(METRICS)
        for slot, number in zip(query.metrics, METRICS.values(), strict=False):
            slot.metricId = number
        query.sample1, query.sample2 = before, now
        with nvml_errors("GPM metrics"):
            pynvml.nvmlGpmMetricsGet(query)
        return {n: _percent(slot) for n, slot in zip(METRICS, query.metrics, strict=False)}

    def _free(self, sample: Any) -> None:
        with contextlib.suppress(NvmlFailure), nvml_errors("freeing a GPM sample"):
            pynvml.nvmlGpmSampleFree(sample)


def missing_reason(failure: NvmlFailure) -> MissingReason:
    """Why a number is missing, from NVML's refusal to read it."""
    if failure.code is NvmlCode.NOT_SUPPORTED:
        return MissingReason.NOT_SUPPORTED
    if failure.code is NvmlCode.NO_PERMISSION:
        return MissingReason.NO_PERMISSION
    return (
        MissingReason.GPU_LOST if failure.code is NvmlCode.GPU_LOST else MissingReason.DRIVER_ERROR
    )


def _percent(metric: Any) -> int | MissingReason:
    """Capped, as rounding may exceed 100. Missing if no work between two samples gives a NaN."""
    if metric.nvmlReturn != pynvml.NVML_SUCCESS or not math.isfinite(metric.value):
        return MissingReason.NOT_SUPPORTED
    return min(100, max(0, round(float(metric.value))))
