"""When a failed partition change is tried again, and when its GPU is taken out of service.

Pure, except for a clock that the caller passes in: seconds that never go back."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from agents.facts.partitions import PartitionProblem

# Our choice: an exporter that closes the GPU soon costs little time, one that stays costs one call
# in 20 s.
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 20.0
QUARANTINE_SECONDS = 300.0
QUARANTINED_PAUSE_SECONDS = 60.0


class BackoffChange(StrEnum):
    """What an attempt changed."""

    NO_CHANGE = "nothing"
    BEGAN_TO_FAIL = "began_to_fail"
    QUARANTINED = "quarantined"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class _Streak:
    """Attempts that failed in a row."""

    problem: PartitionProblem
    since: float
    next_try: float
    pause: float = FIRST_PAUSE_SECONDS
    quarantined: bool = False


class Backoff:
    """One streak of failures for each subject: a GPU's UUID, or the CDI file."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._streaks: dict[str, _Streak] = {}

    def is_due(self, subject: str) -> bool:
        """Whether the subject may be tried now."""
        streak = self._streaks.get(subject)
        return streak is None or self._now() >= streak.next_try

    def record_failure(
        self, subject: str, problem: PartitionProblem, *, needs_person: bool = False
    ) -> BackoffChange:
        """Pauses double up to the maximum. `needs_person`: only a person can mend it, so it is
        tried slowly from the start and is not quarantined."""
        now, before = self._now(), self._streaks.get(subject)
        if before is None:
            streak = _Streak(problem, since=now, next_try=now + FIRST_PAUSE_SECONDS)
        else:
            pause = min(2 * before.pause, MAX_PAUSE_SECONDS)
            streak = replace(before, problem=problem, pause=pause, next_try=now + pause)
        long_enough = now - streak.since >= QUARANTINE_SECONDS
        streak = replace(streak, quarantined=long_enough and not needs_person)
        if needs_person or streak.quarantined:
            streak = replace(streak, next_try=now + QUARANTINED_PAUSE_SECONDS)
        self._streaks[subject] = streak
        if streak.quarantined and not (before and before.quarantined):
            return BackoffChange.QUARANTINED
        return BackoffChange.NO_CHANGE if before else BackoffChange.BEGAN_TO_FAIL

    def retry_now(self, subject: str) -> None:
        """The desired change is another one now: try at once, but keep the start of the streak."""
        if before := self._streaks.get(subject):
            self._streaks[subject] = replace(before, next_try=self._now())

    def record_success(self, subject: str) -> BackoffChange:
        """The change succeeded, or is not desired any more."""
        before = self._streaks.pop(subject, None)
        return BackoffChange.RELEASED if before and before.quarantined else BackoffChange.NO_CHANGE

    def seconds_until_due(self, max_seconds: float) -> float:
        """Seconds until the next attempt; at least one first pause, so that a change which is due
        but cannot be tried does not keep the loop busy."""
        waits = [streak.next_try - self._now() for streak in self._streaks.values()]
        return min([max_seconds, *(max(FIRST_PAUSE_SECONDS, wait) for wait in waits)])

    def as_data(self) -> list[dict[str, Any]]:
        """The streaks as JSON data for `restore`, with times of the clock that was passed in."""
        return [
            {
                "subject": subject,
                "since": streak.since,
                "quarantined": streak.quarantined,
                "problem": asdict(streak.problem),
            }
            for subject, streak in self._streaks.items()
        ]

    def restore(self, data: list[dict[str, Any]]) -> None:
        """Take over the streaks of an earlier agent; each is tried at once."""
        for known in data:
            self._streaks[known["subject"]] = _Streak(
                PartitionProblem(**known["problem"]),
                since=known["since"],
                next_try=self._now(),
                quarantined=known["quarantined"],
            )

    def failing_subjects(self) -> frozenset[str]:
        return frozenset(self._streaks)

    def problems(self) -> list[PartitionProblem]:
        """Why each subject fails, in order of their first failure."""
        return [
            _quarantine(streak.problem) if streak.quarantined else streak.problem
            for streak in self._streaks.values()
        ]


def _quarantine(problem: PartitionProblem) -> PartitionProblem:
    minutes = int(QUARANTINE_SECONDS) // 60
    sentence = f"quarantined: refused for more than {minutes} minutes. {problem.sentence}"
    return replace(problem, code="quarantined", sentence=sentence)
