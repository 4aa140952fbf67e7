"""The same jobs on the cluster as it is and on a changed one, beside each other."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scheduler.virtual.job_outcomes import mix_of
from scheduler.virtual.simulation import World
from scheduler.virtual.values import Setting, Week
from scheduler.what_if.changes import Change
from scheduler.what_if.errors import ChangeRefusedError
from scheduler.what_if.outcome import Accuracy, Outcome, accuracy_of, outcome_of
from scheduler.what_if.quota_checks import require_room_for_held

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


def changed_by(setting: Setting, changes: Iterable[Change], week: Week | None = None) -> Setting:
    """The changes one after another. Raises ChangeRefusedError, its field with the change's
    number from 0; knowing the week, also where a quota is less than what ran when it began."""
    for number, change in enumerate(changes):
        try:
            changed = change.on(setting)
            if week is not None:
                require_room_for_held(setting, changed, week)
            setting = changed
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
    other = changed_by(setting, changes, week)
    done, both = 0, 2 * len(week.jobs)

    def over() -> None:
        nonlocal done
        done += 1
        progress(done, both)

    mix = mix_of(week.jobs)
    worlds = [World(setting, week, mix=mix), World(other, week, mix=mix)]
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
