"""Activity by GPM, NVML's performance counters: of a whole GPU, or of each of its GPU instances.

A metric is what changed between two samples; samples are buffers of this process.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pynvml

# nvml.h asks for a tenth of a second between two samples.
SECONDS = 0.12

Take = Callable[[Any], Any]


def activity(gpu: Any) -> float:
    """How much of the time something ran on the GPU, in percent. Raises pynvml.NVMLError."""
    _require(gpu)
    (found,) = _measured([partial(pynvml.nvmlGpmSampleGet, gpu)])
    return found


def activity_of_instances(gpu: Any) -> dict[str, float]:
    """The same by id of each GPU instance that has a compute instance. Raises pynvml.NVMLError."""
    _require(gpu)
    ids = instance_ids(gpu)
    if not ids:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    takes = [partial(pynvml.nvmlGpmMigSampleGet, gpu, one) for one in ids]
    return dict(zip(map(str, ids), _measured(takes), strict=True))


def instance_ids(gpu: Any) -> list[int]:
    """Of the GPU instances behind its MIG devices, lowest first."""
    found = set()
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except (pynvml.NVMLError_NotFound, pynvml.NVMLError_NotSupported):
            continue
        found.add(pynvml.nvmlDeviceGetGpuInstanceId(device))
    return sorted(found)


def _require(gpu: Any) -> None:
    if not pynvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def _measured(takes: Sequence[Take]) -> list[float]:
    """Each sampled twice, with one wait for all of them."""
    pairs: list[list[Any]] = []
    try:
        for _ in takes:
            pairs.append([])
            for _ in range(2):
                pairs[-1].append(pynvml.nvmlGpmSampleAlloc())
        for take, (first, _) in zip(takes, pairs, strict=True):
            take(first)
        time.sleep(SECONDS)
        for take, (_, second) in zip(takes, pairs, strict=True):
            take(second)
        return [_metric(first, second) for first, second in pairs]
    finally:
        for sample in (sample for pair in pairs for sample in pair):
            pynvml.nvmlGpmSampleFree(sample)


def _metric(first: Any, second: Any) -> float:
    asked = pynvml.c_nvmlGpmMetricsGet_t()
    asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    asked.numMetrics = 1
    asked.sample1, asked.sample2 = first, second
    asked.metrics[0].metricId = pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL
    pynvml.nvmlGpmMetricsGet(asked)
    if asked.metrics[0].nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(asked.metrics[0].nvmlReturn)
    return round(float(asked.metrics[0].value), 3)
