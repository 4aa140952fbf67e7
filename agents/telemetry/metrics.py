"""Pure: a look at the sensors and what the agent does, as Prometheus families.

Names and units are the DCGM exporter's where it has the same thing. A value that is not measurable
is absent, never 0; `tessera_agent_not_measurable` has a line for it with the reason. As in the DCGM
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
        "Why the clocks are as they are: bits of nvmlClocksEventReason.",
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
    """What one scrape tells. `samples` is empty where the last look is too old to be told, and
    `age_seconds` None where there was none."""

    hostname: str = ""
    document: ObservedDocument | None = None
    samples: tuple[GpuSample, ...] = ()
    age_seconds: float | None = None
    rounds: int = 0
    looks: int = 0
    failed_looks: int = 0


@dataclass(slots=True)
class _Families:
    """Families by name, in the order of their first value: without one there is no family."""

    found: dict[str, Metric] = field(default_factory=dict)

    def add(self, number: Number, labels: Values, sample: GpuSample | SliceSample) -> None:
        value = getattr(sample, number.field, None)
        if value is not None:
            self._of(number).add_metric(labels, value * number.scale)  # type: ignore[attr-defined]

    def _of(self, number: Number) -> Metric:
        """A counter of the DCGM exporter has no `_total`, which a typed counter must have here."""
        if number.name not in self.found:
            kind: type[Metric] = GaugeMetricFamily
            if number.grows:
                is_dcgm = number.name.startswith("DCGM_")
                kind = UntypedMetricFamily if is_dcgm else CounterMetricFamily
            self.found[number.name] = kind(number.name, number.help, labels=LABELS)  # type: ignore[call-arg]
        return self.found[number.name]


def families(state: State) -> Iterator[Metric]:
    """Every family that has something to tell."""
    yield from _of_devices(state)
    yield from _of_agent(state)


def _of_devices(state: State) -> Iterator[Metric]:
    told = _Families()
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
            told.add(number, labels, sample)
        _absent(absent, labels, sample.missing)
        for piece in sample.slices or (sample,):
            of_piece = _labels(gpu, state.hostname, piece)
            for number in OF_DEVICE:
                told.add(number, of_piece, piece)
            if piece.memory_used_mib is not None and piece.memory_total_mib is not None:
                free.add_metric(of_piece, piece.memory_total_mib - piece.memory_used_mib)
            if isinstance(piece, SliceSample):
                _absent(absent, of_piece, piece.missing)
    yield from told.found.values()
    yield from (family for family in (free, absent) if family.samples)


def _known(
    samples: Iterable[GpuSample], gpus: Mapping[str, ObservedGpu]
) -> Iterator[tuple[GpuSample, ObservedGpu]]:
    """A GPU that the agent has not reported yet has no labels: it is told next time."""
    return ((s, gpus[s.uuid]) for s in samples if s.uuid in gpus)


def _labels(
    gpu: ObservedGpu, hostname: str, piece: GpuSample | SliceSample | None = None
) -> Values:
    """An instance has the UUID of its GPU, as the DCGM exporter has it, and its own two labels."""
    instance = ("", "")
    if isinstance(piece, SliceSample):
        instance = str(piece.instance), piece.profile
    index = str(gpu.index)
    return (index, gpu.uuid, f"nvidia{index}", gpu.product_name, hostname, *instance)


def _absent(family: GaugeMetricFamily, labels: Values, missing: tuple[MissingValue, ...]) -> None:
    for one in missing:
        family.add_metric((*labels, one.name, str(one.why)), 1)


def _of_agent(state: State) -> Iterator[Metric]:
    yield _counter("tessera_agent_rounds", "Reconcile rounds since the start.", state.rounds)
    yield _counter("tessera_agent_telemetry_looks", "Looks at the sensors.", state.looks)
    failed = "Looks at the sensors that the driver refused whole."
    yield _counter("tessera_agent_telemetry_failures", failed, state.failed_looks)
    if state.age_seconds is not None:
        age = GaugeMetricFamily("tessera_agent_telemetry_age_seconds", "Since the last look.")
        age.add_metric((), state.age_seconds)
        yield age
    if state.document is not None:
        yield from _of_document(state.document, state.hostname)


def _of_document(document: ObservedDocument, hostname: str) -> Iterator[Metric]:
    facts = document.facts
    info = InfoMetricFamily("tessera_agent", "The agent and the driver it speaks to.")
    simulated = "true" if facts.simulated else "false"
    told = {"version": facts.agent_version, "driver": facts.driver_version, "simulated": simulated}
    info.add_metric((), told)
    yield info
    replicas = GaugeMetricFamily("tessera_agent_replicas", "Replicas by state.", labels=("state",))
    for state in ReplicaState:
        replicas.add_metric((str(state),), sum(r.state is state for r in document.replicas))
    yield replicas
    problems = GaugeMetricFamily(
        "tessera_agent_problems", "What does not work, by kind: see the portal.", labels=("kind",)
    )
    problems.add_metric(("partition",), len(document.problems))
    problems.add_metric(("preflight",), len(facts.problems))
    problems.add_metric(("preflight_block",), len(facts.blocks))
    yield problems
    healthy = GaugeMetricFamily("tessera_agent_gpu_healthy", "1 where it is.", labels=LABELS)
    for gpu in document.gpus:
        healthy.add_metric(_labels(gpu, hostname), int(gpu.healthy))
    yield healthy


def _counter(name: str, says: str, value: int) -> Metric:
    return CounterMetricFamily(name, says, value=value)
