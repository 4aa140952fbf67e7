"""History that a process keeps between planning passes, so that a pass does not read it again.

No limit is cached: every pass reads quotas, budgets, caps and free devices anew. Usage is exact
too; past runs and the mix of requests may be as old as the last refresh.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from django.db import connection

from portal.planning.history import RunHistory, SubmissionHistory
from portal.planning.usage import UsageHistory
from scheduler.core.model.snapshot import DemandMix, PastRun

# Past runs and the mix are read again after this, between passes.
REFRESH_AFTER = timedelta(seconds=5)
# A pass reads them itself if they are older than this.
MAX_AGE = timedelta(minutes=1)
# Everything is read anew after this, in case a row or a name was changed by hand.
DISCARD_AFTER = timedelta(hours=1)


@dataclass(slots=True)
class HistoryCache:
    """The history of one database. For one thread at a time: hold `lock`."""

    run_history: RunHistory = field(default_factory=RunHistory)
    submissions: SubmissionHistory = field(default_factory=SubmissionHistory)
    usage: UsageHistory = field(default_factory=UsageHistory)
    lock: Lock = field(default_factory=Lock)
    refreshed_at: datetime | None = None
    started_at: datetime | None = None

    def current(self, now: datetime) -> tuple[DemandMix, tuple[PastRun, ...]]:
        """The mix of requests and the past runs, at most MAX_AGE old."""
        if self._age(now) >= MAX_AGE:
            self.refresh(now)
        return self.submissions.mix, self.run_history.runs

    def refresh_if_stale(self, now: datetime) -> None:
        """Refresh if the last refresh is older than REFRESH_AFTER. Called between passes."""
        if self._age(now) >= REFRESH_AFTER:
            self.refresh(now)

    def refresh(self, now: datetime) -> None:
        """Read what is new. Three queries; two more for requests not cached yet."""
        if self.started_at is None or not timedelta(0) <= now - self.started_at < DISCARD_AFTER:
            self.run_history, self.submissions = RunHistory(), SubmissionHistory()
            self.started_at = now
        self.run_history.refresh()
        self.submissions.refresh()
        self.refreshed_at = now

    def _age(self, now: datetime) -> timedelta:
        """Since the last refresh; a clock that went back makes it MAX_AGE."""
        if self.refreshed_at is None or now < self.refreshed_at:
            return MAX_AGE
        return now - self.refreshed_at


_by_database: dict[tuple[str, ...], HistoryCache] = {}


def process_history() -> HistoryCache:
    """The cache of this process for the database in use."""
    settings = connection.settings_dict
    key = tuple(str(settings.get(name, "")) for name in ("ENGINE", "HOST", "PORT", "NAME"))
    return _by_database.setdefault(key, HistoryCache())


def clear_all() -> None:
    """Drop the caches of every database."""
    _by_database.clear()
