"""The same jobs on the cluster as it is and on a changed one, beside each other."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scheduler.what_if.changes import Change
from scheduler.what_if.outcome import Accuracy, Outcome, accuracy_of, outcome_of
from scheduler.what_if.refused import ChangeRefusedError
from scheduler.what_if.values import Setting, Week
from scheduler.what_if.world import World

MOST_JOBS = 20_000
# (jobs done with, jobs of both replays)
Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`differences`: changed less baseline, of the figures that are one number each."""

    since: int
    until: int
    changes: tuple[str, ...]
    baseline: Outcome
    changed: Outcome
    differences: dict[str, float]
    accuracy: Accuracy


def changed_by(setting: Setting, changes: Iterable[Change]) -> Setting:
    """The changes one after another. Raises ChangeRefusedError, its field with the change's
    number from 0."""
    for number, change in enumerate(changes):
        try:
            setting = change.on(setting)
        except ChangeRefusedError as refused:
            raise ChangeRefusedError(refused.sentence, f"{number}.{refused.field}") from refused
    return setting


def compare(
    setting: Setting,
    week: Week,
    changes: Iterable[Change],
    progress: Progress = lambda done, of: None,
) -> Comparison:
    """Both replays. Raises ChangeRefusedError, also where there are too many jobs."""
    changes = tuple(changes)
    if len(week.jobs) > MOST_JOBS:
        sentence = f"There are {len(week.jobs)} jobs in this time; at most {MOST_JOBS} are replayed"
        raise ChangeRefusedError(f"{sentence}. Ask about fewer days", "days")
    other = changed_by(setting, changes)
    done, both = 0, 2 * len(week.jobs)

    def over() -> None:
        nonlocal done
        done += 1
        progress(done, both)

    worlds = [World(setting, week), World(other, week)]
    for world in worlds:
        world.run(over)
    progress(both, both)
    baseline, changed = (outcome_of(world, week) for world in worlds)
    return Comparison(
        since=week.since,
        until=week.until,
        changes=tuple(str(change) for change in changes),
        baseline=baseline,
        changed=changed,
        differences=_differences(baseline, changed),
        accuracy=accuracy_of(worlds[0].fates.values()),
    )


def _differences(baseline: Outcome, changed: Outcome) -> dict[str, float]:
    before, after = numbers_of(baseline), numbers_of(changed)
    return {name: round(after[name] - before[name], 4) for name in before}


def numbers_of(outcome: Outcome) -> dict[str, float]:
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
