"""C symbols of GPM, NVML's performance counters: on Hopper and newer, for a GPU or a GPU instance.

Two samples of the same thing make a metric: the mean of the time between them. Not verified on
hardware: that a whole GPU in MIG mode refuses a sample (NOT_SUPPORTED here), and which code samples
of two different things give (INVALID_ARGUMENT here).
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.simdriver import utilisation as load
from agents.simdriver.codes import Code, DriverError
from agents.simdriver.handles import Ref
from agents.simdriver.telemetry import gpu_with_time

WITH_GPM = ("hopper", "blackwell")
SUPPORT_VERSION = METRICS_VERSION = 1
MAX_METRICS = 333
# Metric id: its share of the activity (percent), by the names of nvml.h.
GRAPHICS, SM, OCCUPANCY, TENSOR, DRAM = 1, 2, 3, 5, 10
SHARES = {GRAPHICS: 100.0, SM: 90.0, OCCUPANCY: 45.0, TENSOR: 55.0, DRAM: 45.0}
LINK_RECEIVED, LINK_SENT = 60, 61
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class GpmSample:
    """What was seen of a GPU (`instance` None) or an instance; links in MiB/s over all of them."""

    gpu: str = ""
    instance: int | None = None
    at: float = -1.0
    activity: float = 0.0
    links: float | None = None


def _support(library: Any, handle: Any, out: Any) -> None:
    if out._obj.version != SUPPORT_VERSION:
        raise DriverError(Code.ARGUMENT_VERSION_MISMATCH)
    _, gpu, _ = gpu_with_time(library, handle)
    out._obj.isSupportedDevice = int(gpu.kind.architecture in WITH_GPM)


def _alloc(library: Any, out: Any) -> None:
    ref = Ref("", uuid=f"gpm-sample-{next(_numbers)}")
    library.gpm_samples[ref] = GpmSample()
    library.handles.give(out, ref)


def _free(library: Any, sample: Any) -> None:
    _of(library, sample)
    del library.gpm_samples[library.handles.ref(sample)]


def _of(library: Any, sample: Any) -> GpmSample:
    found: GpmSample | None = library.gpm_samples.get(library.handles.ref(sample))
    if found is None:
        raise DriverError(Code.INVALID_ARGUMENT)
    return found


def _get(library: Any, handle: Any, sample: Any) -> None:
    _take(library, handle, None, sample)


def _get_mig(library: Any, handle: Any, instance: Any, sample: Any) -> None:
    _take(library, handle, int(getattr(instance, "value", instance)), sample)


def _take(library: Any, handle: Any, instance: int | None, sample: Any) -> None:
    node, gpu, now = gpu_with_time(library, handle)
    _of(library, sample)
    if gpu.kind.architecture not in WITH_GPM or bool(gpu.mig_current) == (instance is None):
        raise DriverError(Code.NOT_SUPPORTED)
    if instance is not None and gpu.instance(instance) is None:
        raise DriverError(Code.INVALID_ARGUMENT)
    count = len(load.live_links(node, gpu))
    links = count * load.link_rate(gpu, now) / 1024 if count and instance is None else None
    busy = load.activity(gpu, now, instance)
    library.gpm_samples[library.handles.ref(sample)] = GpmSample(
        gpu.uuid, instance, now, busy, links
    )


def _metrics(library: Any, asked: Any) -> None:
    """Each metric has a return code of its own."""
    asked = asked._obj
    if asked.version != METRICS_VERSION:
        raise DriverError(Code.ARGUMENT_VERSION_MISMATCH)
    one, other = _of(library, asked.sample1), _of(library, asked.sample2)
    is_same = (one.gpu, one.instance) == (other.gpu, other.instance) and one.gpu
    if not is_same or other.at <= one.at or not 0 < asked.numMetrics <= MAX_METRICS:
        raise DriverError(Code.INVALID_ARGUMENT)
    for metric in asked.metrics[: asked.numMetrics]:
        value = _value(metric.metricId, one, other)
        metric.nvmlReturn = Code.NOT_SUPPORTED if value is None else Code.SUCCESS
        metric.value = value or 0.0


def _value(metric: int, one: GpmSample, other: GpmSample) -> float | None:
    if metric in SHARES:
        return SHARES[metric] * (one.activity + other.activity) / 2
    if metric in (LINK_RECEIVED, LINK_SENT) and one.links is not None and other.links is not None:
        return (one.links + other.links) / 2
    return None


GPM_SYMBOLS: dict[str, Callable[..., Any]] = {
    "nvmlGpmQueryDeviceSupport": _support,
    "nvmlGpmSampleAlloc": _alloc,
    "nvmlGpmSampleFree": _free,
    "nvmlGpmSampleGet": _get,
    "nvmlGpmMigSampleGet": _get_mig,
    "nvmlGpmMetricsGet": _metrics,
}
