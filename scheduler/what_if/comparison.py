"""The same jobs on the cluster as it is and on a changed one, beside each other."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scheduler.virtual.job_outcomes import demand_mix
from scheduler.virtual.simulation import Simulation
from scheduler.virtual.values import RecordedWindow, Scenario
from scheduler.what_if.changes import ClusterChange
from scheduler.what_if.errors import ChangeRefusedError
from scheduler.what_if.outcome import ReplayAccuracy, ReplayFigures, replay_accuracy, replay_figures
from scheduler.what_if.quota_checks import require_quotas_cover_running

MAX_JOBS = 20_000
# (jobs done with, jobs of both replays)
Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`differences`: changed less baseline, of the figures that are one number each."""

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
    """The changes one after another. Raises ChangeRefusedError, its field with the change's
    number from 0; knowing the week, also where a quota is less than what ran when it began."""
    for number, change in enumerate(changes):
        try:
            changed = change.apply_to(scenario)
            if window is not None:
                require_quotas_cover_running(scenario, changed, window)
            scenario = changed
        except ChangeRefusedError as refused:
            raise ChangeRefusedError(refused.sentence, f"{number}.{refused.field}") from refused
    return scenario


def compare(
    scenario: Scenario,
    window: RecordedWindow,
    changes: Iterable[ClusterChange],
    progress: Progress = lambda done, of: None,
) -> Comparison:
    """Both replays. Raises ChangeRefusedError, also where there are too many jobs."""
    changes = tuple(changes)
    if len(window.jobs) > MAX_JOBS:
        sentence = (
            f"There are {len(window.jobs)} jobs in this time; at most {MAX_JOBS} are replayed"
        )
        raise ChangeRefusedError(f"{sentence}. Ask about fewer days", "days")
    other = apply_changes(scenario, changes, window)
    done, both = 0, 2 * len(window.jobs)

    def over() -> None:
        nonlocal done
        done += 1
        progress(done, both)

    mix = demand_mix(window.jobs)
    worlds = [Simulation(scenario, window, mix=mix), Simulation(other, window, mix=mix)]
    for world in worlds:
        world.run(over)
    progress(both, both)
    baseline, changed = (replay_figures(world, window) for world in worlds)
    return Comparison(
        since=window.since,
        until=window.until,
        changes=tuple(str(change) for change in changes),
        baseline=baseline,
        changed=changed,
        differences=_differences(baseline, changed),
        accuracy=replay_accuracy(worlds[0].outcomes.values()),
    )


def _differences(baseline: ReplayFigures, changed: ReplayFigures) -> dict[str, float]:
    before, after = figures(baseline), figures(changed)
    return {name: round(after[name] - before[name], 4) for name in before}


def figures(outcome: ReplayFigures) -> dict[str, float]:
    """The figures that are one number each, in the order that people read them."""
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
