"""The figures of a simulation. Seconds are whole numbers; parts of the cluster are 0 to 1."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from agents.contract.units import UNITS_PER_GPU
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.snapshot import NodeView
from scheduler.virtual.job_outcomes import JobOutcome
from scheduler.virtual.simulation import Simulation
from scheduler.virtual.values import RecordedWindow


@dataclass(frozen=True, slots=True)
class WaitStatistics:
    """Time in the queue, of the jobs that started."""

    jobs: int = 0
    mean_seconds: int = 0
    p50_seconds: int = 0
    p95_seconds: int = 0
    longest_seconds: int = 0


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """Figures about the jobs queued inside the window. Each ended, waits, was refused or was
    withdrawn. The field names are stored and part of the REST API."""

    jobs: int
    ended: int
    left_waiting: int
    """Still waiting when no event was left."""
    refused: int
    """Can never run here, or their quota is too small."""
    withdrawn: int
    """Withdrawn by their users while they waited."""
    waits: WaitStatistics
    waits_by_project: dict[str, WaitStatistics]
    waits_by_priority: dict[str, WaitStatistics]
    held_for: dict[str, int]
    """Seconds of waiting, by reason code."""
    allocated: float
    """Mean part of the available GPUs that was allocated during the window."""
    allocated_by_model: dict[str, float]
    gpus: int
    """Available ones."""
    preemptions: int
    """Of all jobs."""
    last_ended_at: int


@dataclass(frozen=True, slots=True)
class ReplayAccuracy:
    """How well the simulation of the unchanged cluster reproduces the recorded waits, over the jobs
    that started in both."""

    jobs: int
    recorded_mean_seconds: int
    replayed_mean_seconds: int
    recorded_p50_seconds: int
    replayed_p50_seconds: int


def replay_figures(simulation: Simulation, window: RecordedWindow) -> ReplayFigures:
    outcomes = [outcome for outcome in simulation.outcomes.values() if outcome.recorded.is_counted]
    ran = [outcome for outcome in outcomes if outcome.started_at]
    by_project: dict[str, list[int]] = defaultdict(list)
    by_priority: dict[str, list[int]] = defaultdict(list)
    for outcome in ran:
        by_project[outcome.recorded.job.project].append(outcome.waited_seconds)
        by_priority[str(outcome.recorded.job.priority)].append(outcome.waited_seconds)
    available = available_units(simulation.scenario.nodes)
    seconds = max(1, window.until - window.since)
    allocated_units: Counter[str] = Counter()
    models = model_names(simulation.scenario.nodes)
    for board, unit_seconds in simulation.allocated_unit_seconds.items():
        allocated_units[models[board]] += unit_seconds
    return ReplayFigures(
        jobs=len(outcomes),
        ended=sum(1 for o in outcomes if o.ended_at and not (o.refused or o.withdrawn)),
        left_waiting=sum(1 for o in outcomes if not o.ended_at),
        refused=sum(1 for o in outcomes if o.refused),
        withdrawn=sum(1 for o in outcomes if o.withdrawn),
        waits=wait_statistics(o.waited_seconds for o in ran),
        waits_by_project={key: wait_statistics(found) for key, found in sorted(by_project.items())},
        waits_by_priority={
            key: wait_statistics(found) for key, found in sorted(by_priority.items())
        },
        held_for={code: n for code, n in sorted(simulation.wait_seconds.items()) if n},
        allocated=_part(allocated_units.total(), available.total() * seconds),
        allocated_by_model={
            m: _part(allocated_units[m], n * seconds) for m, n in sorted(available.items())
        },
        gpus=available.total() // UNITS_PER_GPU,
        preemptions=sum(outcome.stops for outcome in simulation.outcomes.values()),
        last_ended_at=max(
            (outcome.ended_at for outcome in simulation.outcomes.values()), default=0
        ),
    )


def replay_accuracy(outcomes: Iterable[JobOutcome]) -> ReplayAccuracy:
    pairs = [
        (outcome.recorded.waited_seconds, outcome.waited_seconds)
        for outcome in outcomes
        if outcome.recorded.is_counted
        and outcome.started_at
        and outcome.recorded.waited_seconds is not None
    ]
    recorded, replayed = (
        wait_statistics(then for then, _ in pairs),
        wait_statistics(now for _, now in pairs),
    )
    return ReplayAccuracy(
        len(pairs),
        *(recorded.mean_seconds, replayed.mean_seconds),
        *(recorded.p50_seconds, replayed.p50_seconds),
    )


def wait_statistics(seconds: Iterable[int]) -> WaitStatistics:
    """Percentiles by nearest rank: each is a wait that happened."""
    found = sorted(seconds)
    if not found:
        return WaitStatistics()
    number = len(found)
    p50, p95 = (found[-(-number * percent // 100) - 1] for percent in (50, 95))
    return WaitStatistics(number, round(sum(found) / number), p50, p95, found[-1])


def available_units(nodes: Iterable[NodeView]) -> Counter[str]:
    """Units of healthy GPUs on available nodes, by model."""
    gpus = (gpu for node in nodes if node.available for gpu in node.gpus if gpu.healthy)
    found: Counter[str] = Counter()
    for gpu in gpus:
        found[gpu_board(gpu).model] += UNITS_PER_GPU
    return found


def model_names(nodes: Iterable[NodeView]) -> dict[str, str]:
    """The model by the key of the board."""
    return {b.key: b.model for node in nodes for b in map(gpu_board, node.gpus)}


def _part(allocated_units: int, available: int) -> float:
    return round(allocated_units / available, 4) if available else 0.0
