"""What a process keeps of the past between planning passes, so that a pass need not read it again.

Nothing here is a limit: quotas, budgets, caps and free devices are read anew by every pass. What
was used is exact as well; past runs and the mix of requests may be as old as the last look.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from django.db import connection

from portal.planning.history import PastRuns, Submissions
from portal.planning.usage import Used
from scheduler.core.model.snapshot import Mix, PastRun

# Past runs and the mix are read again after this, beside the passes.
LOOK_AFTER = timedelta(seconds=5)
# No pass goes by what was read longer ago.
TOO_OLD = timedelta(minutes=1)
# Everything is forgotten after this, in case a row or a name was changed by hand.
FORGET_AFTER = timedelta(hours=1)


@dataclass(slots=True)
class Lately:
    """Of one database. One thread at a time: hold `lock`."""

    past: PastRuns = field(default_factory=PastRuns)
    submissions: Submissions = field(default_factory=Submissions)
    used: Used = field(default_factory=Used)
    lock: Lock = field(default_factory=Lock)
    looked_at: datetime | None = None
    began_at: datetime | None = None

    def told(self, now: datetime) -> tuple[Mix, tuple[PastRun, ...]]:
        """The mix of requests and past runs, at most TOO_OLD. No query where they are younger."""
        if self._age(now) >= TOO_OLD:
            self.look(now)
        return self.submissions.mix, self.past.runs

    def look_if_due(self, now: datetime) -> None:
        """For whoever has time: look where the last look is older than LOOK_AFTER."""
        if self._age(now) >= LOOK_AFTER:
            self.look(now)

    def look(self, now: datetime) -> None:
        """Read what is new. Three queries; two more for requests never seen."""
        if self.began_at is None or not timedelta(0) <= now - self.began_at < FORGET_AFTER:
            self.past, self.submissions, self.began_at = PastRuns(), Submissions(), now
        self.past.look()
        self.submissions.look()
        self.looked_at = now

    def _age(self, now: datetime) -> timedelta:
        """Since the last look; a clock that went back makes it too old."""
        if self.looked_at is None or now < self.looked_at:
            return TOO_OLD
        return now - self.looked_at


_kept: dict[tuple[str, ...], Lately] = {}


def lately_here() -> Lately:
    """What this process keeps of the database that it works with."""
    said = connection.settings_dict
    key = tuple(str(said.get(word, "")) for word in ("ENGINE", "HOST", "PORT", "NAME"))
    return _kept.setdefault(key, Lately())


def forget_all() -> None:
    """Of every database."""
    _kept.clear()
