"""When a GPU that refuses is tried again, and when it is taken out of service. Pure but for a
clock, which is handed in: seconds that never go back."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from agents.facts.partitions import PartitionProblem

# Our choice: an exporter that lets go at once is met at once, one that stays costs a call in 20 s.
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 20.0
QUARANTINE_SECONDS = 300.0
QUARANTINED_PAUSE_SECONDS = 60.0


class BackoffChange(StrEnum):
    """What a try changed, where it changed something."""

    NO_CHANGE = "nothing"
    BEGAN_TO_FAIL = "began_to_fail"
    QUARANTINED = "quarantined"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class _Streak:
    """Tries that failed one after the other."""

    problem: PartitionProblem
    since: float
    next_try: float
    pause: float = FIRST_PAUSE_SECONDS
    quarantined: bool = False


class Backoff:
    """One streak of failures for each subject: a GPU's UUID, or another thing that is tried."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._streaks: dict[str, _Streak] = {}

    def is_due(self, subject: str) -> bool:
        """Whether it may be tried now."""
        streak = self._streaks.get(subject)
        return streak is None or self._now() >= streak.next_try

    def record_failure(
        self, subject: str, problem: PartitionProblem, *, needs_person: bool = False
    ) -> BackoffChange:
        """Pauses double up to the longest one. `for_a_person`: only somebody's hand mends it, so
        it is tried slowly from the first, and is no quarantine."""
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
        """Another thing is asked of it now: try at once, and remember how long it fails."""
        if before := self._streaks.get(subject):
            self._streaks[subject] = replace(before, next_try=self._now())

    def record_success(self, subject: str) -> BackoffChange:
        """It worked, or nothing is asked of it any more."""
        before = self._streaks.pop(subject, None)
        return BackoffChange.RELEASED if before and before.quarantined else BackoffChange.NO_CHANGE

    def seconds_until_due(self, max_seconds: float) -> float:
        """Seconds until something is to be tried again; a whole first pause at least, so that a
        thing which is due and cannot be tried keeps nobody busy."""
        waits = [streak.next_try - self._now() for streak in self._streaks.values()]
        return min([max_seconds, *(max(FIRST_PAUSE_SECONDS, wait) for wait in waits)])

    def as_data(self) -> list[dict[str, Any]]:
        """What `remember` takes: the streaks as JSON data, by the clock that was handed in."""
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
        """The streaks of an agent before this one; each is tried at once."""
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
        """Why each of them fails, in order of its beginning."""
        return [
            _quarantine(streak.problem) if streak.quarantined else streak.problem
            for streak in self._streaks.values()
        ]


def _quarantine(problem: PartitionProblem) -> PartitionProblem:
    minutes = int(QUARANTINE_SECONDS) // 60
    sentence = f"quarantined: refused for more than {minutes} minutes. {problem.sentence}"
    return replace(problem, code="quarantined", sentence=sentence)
