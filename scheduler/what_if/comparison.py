"""Simulates the same jobs on the cluster as it is and on a changed one, and compares both."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agents.contract.message import Message
from scheduler.virtual.job_outcomes import demand_mix
from scheduler.virtual.simulation import Simulation
from scheduler.virtual.values import RecordedWindow, Scenario
from scheduler.what_if.changes import ClusterChange
from scheduler.what_if.errors import ChangeRefusedError
from scheduler.what_if.outcome import ReplayAccuracy, ReplayFigures, replay_accuracy, replay_figures
from scheduler.what_if.quota_checks import require_quotas_cover_running

MAX_JOBS = 20_000
# Called with (jobs done, jobs of both simulations).
Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`differences`: changed minus baseline, for the figures that are single numbers."""

    since: int
    until: int
    changes: tuple[str, ...]
    baseline: ReplayFigures
    changed: ReplayFigures
    differences: dict[str, float]
    accuracy: ReplayAccuracy


def apply_changes(
    scenario: Scenario, changes: Iterable[ClusterChange], window: RecordedWindow | None = None
) -> Scenario:
    """Apply the changes one after another. Raises ChangeRefusedError, its field prefixed with the
    change's number from 0; with a window, also if a quota is below what ran when that began."""
    for number, change in enumerate(changes):
        try:
            changed = change.apply_to(scenario)
            if window is not None:
                require_quotas_cover_running(scenario, changed, window)
            scenario = changed
        except ChangeRefusedError as refused:
            raise ChangeRefusedError(refused.message, f"{number}.{refused.field}") from refused
    return scenario


def too_many_jobs(number: int) -> Message:
    """Why this many jobs are not replayed."""
    return Message(
        "There are %(n)s jobs in this time; at most %(most)s are replayed. Choose fewer days",
        n=number,
        most=MAX_JOBS,
    )


def compare(
    scenario: Scenario,
    window: RecordedWindow,
    changes: Iterable[ClusterChange],
    progress: Progress = lambda done, of: None,
) -> Comparison:
    """Run both simulations. Raises ChangeRefusedError, also if there are too many jobs."""
    changes = tuple(changes)
    if len(window.jobs) > MAX_JOBS:
        raise ChangeRefusedError(too_many_jobs(len(window.jobs)), "days")
    changed_scenario = apply_changes(scenario, changes, window)
    done, total = 0, 2 * len(window.jobs)

    def count_job() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    mix = demand_mix(window.jobs)
    simulations = [
        Simulation(scenario, window, mix=mix),
        Simulation(changed_scenario, window, mix=mix),
    ]
    for simulation in simulations:
        simulation.run(count_job)
    progress(total, total)
    baseline, changed = (replay_figures(simulation, window) for simulation in simulations)
    return Comparison(
        since=window.since,
        until=window.until,
        changes=tuple(str(change) for change in changes),
        baseline=baseline,
        changed=changed,
        differences=_differences(baseline, changed),
        accuracy=replay_accuracy(simulations[0].outcomes.values()),
    )


def _differences(baseline: ReplayFigures, changed: ReplayFigures) -> dict[str, float]:
    before, after = figures(baseline), figures(changed)
    return {name: round(after[name] - before[name], 4) for name in before}


def figures(outcome: ReplayFigures) -> dict[str, float]:
    """The figures that are single numbers, in the order of the table."""
    return {
        "ended": outcome.ended,
        "left_waiting": outcome.left_waiting,
        "refused": outcome.refused,
        "withdrawn": outcome.withdrawn,
        "mean_wait_seconds": outcome.waits.mean_seconds,
        "p50_wait_seconds": outcome.waits.p50_seconds,
        "p95_wait_seconds": outcome.waits.p95_seconds,
        "longest_wait_seconds": outcome.waits.longest_seconds,
        "allocated": outcome.allocated,
        "gpus": outcome.gpus,
        "preemptions": outcome.preemptions,
    }
