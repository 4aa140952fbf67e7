"""What a replay came to, in figures. Seconds are whole, parts of the cluster are 0 to 1."""

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
    """How long jobs stood in the queue, those that started, in all."""

    jobs: int = 0
    mean_seconds: int = 0
    p50_seconds: int = 0
    p95_seconds: int = 0
    longest_seconds: int = 0


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """Of the jobs queued inside the window. Each is one of `ended`, `left_waiting` (when
    nothing happened any more), `refused` (it could never run here, or no quota would ever pay for
    it) and `withdrawn` (its people took it back while it waited).

    `held_for`: seconds that they waited, by the code of the reason. `allocated`: the mean part of
    the available GPUs that was held during the window; `allocated_by_model`: of each model.
    `gpus`: how many were available. `preemptions` of all jobs.
    """

    jobs: int
    ended: int
    left_waiting: int
    refused: int
    withdrawn: int
    waits: WaitStatistics
    waits_by_project: dict[str, WaitStatistics]
    waits_by_priority: dict[str, WaitStatistics]
    held_for: dict[str, int]
    allocated: float
    allocated_by_model: dict[str, float]
    gpus: int
    preemptions: int
    last_ended_at: int


@dataclass(frozen=True, slots=True)
class ReplayAccuracy:
    """How well the replay of the unchanged cluster tells the recorded waits: of the same jobs,
    those that started both then and in the replay. Without any there is nothing to compare."""

    jobs: int
    recorded_mean_seconds: int
    replayed_mean_seconds: int
    recorded_p50_seconds: int
    replayed_p50_seconds: int


def replay_figures(simulation: Simulation, window: RecordedWindow) -> ReplayFigures:
    fates = [fate for fate in simulation.outcomes.values() if fate.recorded.is_counted]
    ran = [fate for fate in fates if fate.started_at]
    by_project: dict[str, list[int]] = defaultdict(list)
    by_priority: dict[str, list[int]] = defaultdict(list)
    for fate in ran:
        by_project[fate.recorded.job.project].append(fate.waited_seconds)
        by_priority[str(fate.recorded.job.priority)].append(fate.waited_seconds)
    there = available_units(simulation.scenario.nodes)
    seconds = max(1, window.until - window.since)
    held: Counter[str] = Counter()
    models = model_names(simulation.scenario.nodes)
    for board, unit_seconds in simulation.allocated_unit_seconds.items():
        held[models[board]] += unit_seconds
    return ReplayFigures(
        jobs=len(fates),
        ended=sum(1 for f in fates if f.ended_at and not (f.refused or f.withdrawn)),
        left_waiting=sum(1 for f in fates if not f.ended_at),
        refused=sum(1 for f in fates if f.refused),
        withdrawn=sum(1 for f in fates if f.withdrawn),
        waits=wait_statistics(f.waited_seconds for f in ran),
        waits_by_project={key: wait_statistics(found) for key, found in sorted(by_project.items())},
        waits_by_priority={
            key: wait_statistics(found) for key, found in sorted(by_priority.items())
        },
        held_for={code: n for code, n in sorted(simulation.wait_seconds.items()) if n},
        allocated=_part(held.total(), there.total() * seconds),
        allocated_by_model={m: _part(held[m], n * seconds) for m, n in sorted(there.items())},
        gpus=there.total() // UNITS_PER_GPU,
        preemptions=sum(fate.stops for fate in simulation.outcomes.values()),
        last_ended_at=max((fate.ended_at for fate in simulation.outcomes.values()), default=0),
    )


def replay_accuracy(fates: Iterable[JobOutcome]) -> ReplayAccuracy:
    pairs = [
        (fate.recorded.waited_seconds, fate.waited_seconds)
        for fate in fates
        if fate.recorded.is_counted and fate.started_at and fate.recorded.waited_seconds is not None
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
    """Percentiles by the nearest rank: each is a wait that happened."""
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


def _part(held: int, there: int) -> float:
    return round(held / there, 4) if there else 0.0
