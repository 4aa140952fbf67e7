"""After how long without progress a job counts as hung: by its own request, or by the settings."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Case, When

from portal.jobs.models import Attempt
from portal.jobs.querysets import gang_filter
from scheduler.core.model.states import JobStatus
from scheduler.core.request.progress_limits import ProgressLimit, parse_progress_limit

# After a warning there is at least this long until a stop.
MIN_NOTICE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class HangLimit:
    """Of one job: when it is warned and stopped, counted from its last sign."""

    warn_after: timedelta
    stop_after: timedelta | None
    """None: it is only warned."""
    started_at: datetime | None = None
    """Of a limit of its own, which holds before it has written anything, and as it is however long
    the job was silent before. None: that of the settings."""

    def stops_at(self, warned_at: datetime) -> datetime | None:
        if self.stop_after is None:
            return None
        return warned_at + max(self.stop_after - self.warn_after, MIN_NOTICE)


@dataclass(frozen=True, slots=True)
class HungLimits:
    """Of the installation. `warn_minutes` 0: nothing is judged; `stop_minutes` 0: nothing stops."""

    warn_minutes: int
    stop_minutes: int

    @property
    def stop_seconds(self) -> int:
        """0 if nothing is judged, or stops."""
        return self.stop_minutes * 60 if self.warn_minutes else 0

    @property
    def stop_after(self) -> timedelta | None:
        return timedelta(seconds=self.stop_seconds) if self.stop_seconds else None

    def for_all(self) -> HangLimit | None:
        if not self.warn_minutes:
            return None
        return HangLimit(timedelta(minutes=self.warn_minutes), self.stop_after)


def own_hang_limits(limits: HungLimits) -> dict[int, HangLimit]:
    """By job, of the running jobs that ask for one. One query."""
    asked = {"job__status": JobStatus.RUNNING, "job__request__progress_limit__isnull": False}
    columns = ("job__request__progress_limit", "job__request__idle_stop", "job__started_at")
    rows = Attempt.objects.open().filter(**asked).order_by("pk")
    several = Case(When(gang_filter(), then=True), default=False)
    found = {}
    for pk, written, idle_stop, started_at, is_gang in rows.values_list("job", *columns, several):
        has_policy = idle_stop is not False and is_gang
        policy = limits.stop_after if has_policy else None
        if started_at is not None:
            found[pk] = _own(parse_progress_limit(written), policy, started_at)
    return found


def _own(limit: ProgressLimit, policy: timedelta | None, started_at: datetime) -> HangLimit:
    """The stop of the settings holds for whoever does not ask for an earlier one, also if it was
    lowered since. Whatever was asked for, the warning comes before it."""
    after = timedelta(seconds=limit.seconds)
    stop = min(after, policy or after) if limit.stops else policy
    if stop is None:
        return HangLimit(after, None, started_at)
    return HangLimit(min(after, max(stop - MIN_NOTICE, MIN_NOTICE)), stop, started_at)
