"""What a process keeps of the past between planning passes, so that a pass need not read it again.

Nothing here is a limit: quotas, budgets, caps and free devices are read anew by every pass. What
was used is exact as well; past runs and the mix of requests may be as old as the last look.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from django.db import connection

from portal.planning.history import RunHistory, SubmissionHistory
from portal.planning.usage import UsageHistory
from scheduler.core.model.snapshot import DemandMix, PastRun

# Past runs and the mix are read again after this, beside the passes.
REFRESH_AFTER = timedelta(seconds=5)
# No pass goes by what was read longer ago.
MAX_AGE = timedelta(minutes=1)
# Everything is forgotten after this, in case a row or a name was changed by hand.
DISCARD_AFTER = timedelta(hours=1)


@dataclass(slots=True)
class HistoryCache:
    """Of one database. One thread at a time: hold `lock`."""

    run_history: RunHistory = field(default_factory=RunHistory)
    submissions: SubmissionHistory = field(default_factory=SubmissionHistory)
    usage: UsageHistory = field(default_factory=UsageHistory)
    lock: Lock = field(default_factory=Lock)
    refreshed_at: datetime | None = None
    started_at: datetime | None = None

    def current(self, now: datetime) -> tuple[DemandMix, tuple[PastRun, ...]]:
        """The mix of requests and past runs, at most TOO_OLD. No query where they are younger."""
        if self._age(now) >= MAX_AGE:
            self.refresh(now)
        return self.submissions.mix, self.run_history.runs

    def refresh_if_stale(self, now: datetime) -> None:
        """For whoever has time: look where the last look is older than LOOK_AFTER."""
        if self._age(now) >= REFRESH_AFTER:
            self.refresh(now)

    def refresh(self, now: datetime) -> None:
        """Read what is new. Three queries; two more for requests never seen."""
        if self.started_at is None or not timedelta(0) <= now - self.started_at < DISCARD_AFTER:
            self.run_history, self.submissions, self.started_at = (
                RunHistory(),
                SubmissionHistory(),
                now,
            )
        self.run_history.refresh()
        self.submissions.refresh()
        self.refreshed_at = now

    def _age(self, now: datetime) -> timedelta:
        """Since the last look; a clock that went back makes it too old."""
        if self.refreshed_at is None or now < self.refreshed_at:
            return MAX_AGE
        return now - self.refreshed_at


_kept: dict[tuple[str, ...], HistoryCache] = {}


def process_history() -> HistoryCache:
    """What this process keeps of the database that it works with."""
    said = connection.settings_dict
    key = tuple(str(said.get(word, "")) for word in ("ENGINE", "HOST", "PORT", "NAME"))
    return _kept.setdefault(key, HistoryCache())


def clear_all() -> None:
    """Of every database."""
    _kept.clear()
