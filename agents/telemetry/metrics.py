"""Prometheus metric families of sensor readings and of the agent. Pure.

Names and units are those of the DCGM exporter for the same quantity. A value that cannot be
measured is absent, never 0, and `tessera_agent_not_measurable` has the reason. As with the DCGM
exporter, memory and activity of a GPU in MIG mode are those of its instances.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    UntypedMetricFamily,
)

from agents.contract.documents import ObservedDocument, ObservedGpu, ReplicaState
from agents.contract.telemetry import GpuSample, MissingValue, SliceSample

LABELS = ("gpu", "UUID", "device", "modelName", "Hostname", "GPU_I_ID", "GPU_I_PROFILE")
Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A family that is one field of a sample, times `scale`."""

    name: str
    field: str
    help: str
    scale: float = 1.0
    grows: bool = False


# On the whole GPU, in MIG mode too.
OF_GPU = (
    Number("DCGM_FI_DEV_GPU_UTIL", "utilization_percent", "Time in which a kernel ran, in %."),
    Number("DCGM_FI_DEV_MEM_COPY_UTIL", "memory_busy_percent", "Time in which memory moved, in %."),
    Number("DCGM_FI_DEV_GPU_TEMP", "temperature_c", "GPU temperature in degrees Celsius."),
    Number("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_c", "Memory temperature in Celsius."),
    Number("DCGM_FI_DEV_POWER_USAGE", "power_mw", "Power draw in watts.", 1e-3),
    Number("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "power_limit_mw", "Power limit in watts.", 1e-3),
    Number(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "energy_mj",
        "Energy since the driver was loaded, in millijoules. It only grows.",
        grows=True,
    ),
    Number("DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz", "SM clock in MHz."),
    Number("DCGM_FI_DEV_MEM_CLOCK", "memory_clock_mhz", "Memory clock in MHz."),
    Number(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
        "event_reasons",
        "Reasons for the current clocks: bits of nvmlClocksEventReason.",
    ),
)
NVLINK = (
    Number("tessera_gpu_nvlink_sent_bytes", "nvlink_sent_kib", "Payload sent.", 1024, True),
    Number("tessera_gpu_nvlink_received_bytes", "nvlink_received_kib", "Received.", 1024, True),
)
# On a GPU without MIG, or on each instance of one with.
OF_DEVICE = (
    Number("DCGM_FI_DEV_FB_USED", "memory_used_mib", "Memory in use, in MiB."),
    Number(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "active_percent",
        "Part of the time in which anything ran, 0 to 1.",
        1e-2,
    ),
    Number(
        "DCGM_FI_PROF_SM_ACTIVE",
        "sm_active_percent",
        "Part of the SMs that were busy, over time, 0 to 1.",
        1e-2,
    ),
)


@dataclass(frozen=True, slots=True)
class State:
    """The content of one scrape."""

    hostname: str = ""
    document: ObservedDocument | None = None
    # Empty if the last reading is stale.
    samples: tuple[GpuSample, ...] = ()
    # Of the last reading; None if there was none.
    age_seconds: float | None = None
    rounds: int = 0
    readings: int = 0
    failed_readings: int = 0


@dataclass(slots=True)
class _Families:
    """Families by name, in the order of their first value. A family without values is left out."""

    by_name: dict[str, Metric] = field(default_factory=dict)

    def add(self, number: Number, labels: Values, sample: GpuSample | SliceSample) -> None:
        value = getattr(sample, number.field, None)
        if value is not None:
            self._of(number).add_metric(labels, value * number.scale)  # type: ignore[attr-defined]

    def _of(self, number: Number) -> Metric:
        """Counters of the DCGM exporter are untyped here: they lack the suffix `_total`."""
        if number.name not in self.by_name:
            kind: type[Metric] = GaugeMetricFamily
            if number.grows:
                is_dcgm = number.name.startswith("DCGM_")
                kind = UntypedMetricFamily if is_dcgm else CounterMetricFamily
            self.by_name[number.name] = kind(number.name, number.help, labels=LABELS)  # type: ignore[call-arg]
        return self.by_name[number.name]


def families(state: State) -> Iterator[Metric]:
    """Every family that has a value."""
    yield from _of_devices(state)
    yield from _of_agent(state)


def _of_devices(state: State) -> Iterator[Metric]:
    device_families = _Families()
    free = GaugeMetricFamily("DCGM_FI_DEV_FB_FREE", "Memory not in use, in MiB.", labels=LABELS)
    absent = GaugeMetricFamily(
        "tessera_agent_not_measurable",
        "1 for each value that is absent because it cannot be measured here, with the reason.",
        labels=(*LABELS, "value", "why"),
    )
    gpus = {gpu.uuid: gpu for gpu in state.document.gpus} if state.document else {}
    for sample, gpu in _known(state.samples, gpus):
        labels = _labels(gpu, state.hostname)
        for number in (*OF_GPU, *NVLINK):
            device_families.add(number, labels, sample)
        _absent(absent, labels, sample.missing)
        for device in sample.slices or (sample,):
            device_labels = _labels(gpu, state.hostname, device)
            for number in OF_DEVICE:
                device_families.add(number, device_labels, device)
            if device.memory_used_mib is not None and device.memory_total_mib is not None:
                free.add_metric(device_labels, device.memory_total_mib - device.memory_used_mib)
            if isinstance(device, SliceSample):
                _absent(absent, device_labels, device.missing)
    yield from device_families.by_name.values()
    yield from (family for family in (free, absent) if family.samples)


def _known(
    samples: Iterable[GpuSample], gpus: Mapping[str, ObservedGpu]
) -> Iterator[tuple[GpuSample, ObservedGpu]]:
    """Without GPUs that the agent has not reported yet, because their labels are unknown."""
    return ((s, gpus[s.uuid]) for s in samples if s.uuid in gpus)


def _labels(
    gpu: ObservedGpu, hostname: str, device: GpuSample | SliceSample | None = None
) -> Values:
    """An instance has the UUID of its GPU, as with the DCGM exporter, and two labels of its own."""
    instance = ("", "")
    if isinstance(device, SliceSample):
        instance = str(device.instance), device.profile
    index = str(gpu.index)
    return (index, gpu.uuid, f"nvidia{index}", gpu.product_name, hostname, *instance)


def _absent(family: GaugeMetricFamily, labels: Values, missing: tuple[MissingValue, ...]) -> None:
    for value in missing:
        family.add_metric((*labels, value.name, str(value.why)), 1)


def _of_agent(state: State) -> Iterator[Metric]:
    yield _counter("tessera_agent_rounds", "Reconcile rounds since the start.", state.rounds)
    yield _counter("tessera_agent_telemetry_looks", "Readings of the sensors.", state.readings)
    failed = "Readings that failed as a whole."
    yield _counter("tessera_agent_telemetry_failures", failed, state.failed_readings)
    if state.age_seconds is not None:
        age = GaugeMetricFamily("tessera_agent_telemetry_age_seconds", "Age of the last reading.")
        age.add_metric((), state.age_seconds)
        yield age
    if state.document is not None:
        yield from _of_document(state.document, state.hostname)


def _of_document(document: ObservedDocument, hostname: str) -> Iterator[Metric]:
    facts = document.facts
    info = InfoMetricFamily("tessera_agent", "The agent and its driver.")
    simulated = "true" if facts.simulated else "false"
    values = {
        "version": facts.agent_version,
        "driver": facts.driver_version,
        "simulated": simulated,
    }
    info.add_metric((), values)
    yield info
    replicas = GaugeMetricFamily("tessera_agent_replicas", "Replicas by state.", labels=("state",))
    for state in ReplicaState:
        replicas.add_metric((str(state),), sum(r.state is state for r in document.replicas))
    yield replicas
    problems = GaugeMetricFamily(
        "tessera_agent_problems", "Problems by kind; the portal has the details.", labels=("kind",)
    )
    problems.add_metric(("partition",), len(document.problems))
    problems.add_metric(("preflight",), len(facts.problems))
    problems.add_metric(("preflight_block",), len(facts.blocks))
    yield problems
    healthy = GaugeMetricFamily(
        "tessera_agent_gpu_healthy", "1 if the GPU is healthy.", labels=LABELS
    )
    for gpu in document.gpus:
        healthy.add_metric(_labels(gpu, hostname), int(gpu.healthy))
    yield healthy


def _counter(name: str, description: str, value: int) -> Metric:
    return CounterMetricFamily(name, description, value=value)
