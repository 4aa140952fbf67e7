"""Recent history: ended runs, and the mix of submitted requests.

Both stay in memory, and a refresh reads only what is new. "New" reaches back by LATE, because a
transaction that took its time earlier may commit later.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q

from portal.database.intervals import SECOND
from portal.jobs.models import Job
from portal.planning.requests import RequestSpec, epoch_seconds, request_specs, run_group
from scheduler.core.model.snapshot import Demand, DemandMix, PastRun
from scheduler.core.model.states import JobStatus

LAST_SUBMITTED = 2_000
LAST_ENDED = 5_000
LATE = timedelta(minutes=1)

RUN_COLUMNS = (
    "id",
    "finished_at",
    "uid",
    "project__slug",
    "owner__username",
    "name",
    "replica_count",
    "time_limit_seconds",
    "limit_is_chosen",
    "attained_seconds",
    "started_at",
    "queued_at",
    "status",
)


@dataclass(slots=True)
class RunHistory:
    """The most recent ended runs, in the order of their end."""

    runs: tuple[PastRun, ...] = ()
    _by_end: dict[tuple[datetime, int], PastRun] = field(default_factory=dict)

    def refresh(self) -> None:
        """Read runs that ended since. One query; one more for requests not cached yet."""
        ended = Job.objects.filter(finished_at__isnull=False, started_at__isnull=False)
        if self._by_end:
            ended = ended.filter(finished_at__gte=max(self._by_end)[0] - LATE)
        rows: list[Any] = list(
            ended.order_by("-finished_at", "-id")[:LAST_ENDED].values_list(*RUN_COLUMNS)
        )
        new = [row for row in rows if (row[1], row[0]) not in self._by_end]
        if not new:
            return
        specs = request_specs(row[2] for row in new)
        self._by_end |= {(row[1], row[0]): _past_run(row, specs[row[2]]) for row in new}
        last = sorted(self._by_end)[-LAST_ENDED:]
        self._by_end = {end: self._by_end[end] for end in last}
        self.runs = tuple(self._by_end.values())


@dataclass(frozen=True, slots=True)
class _Submitted:
    spec: RequestSpec
    cpu_milli: int
    memory_mib: int
    replicas: int
    at: datetime


@dataclass(slots=True)
class SubmissionHistory:
    """The requests of the most recently submitted jobs."""

    mix: DemandMix = field(default_factory=DemandMix)
    _rows: dict[int, _Submitted] = field(default_factory=dict)
    _demands: tuple[Demand, ...] = ()

    def refresh(self) -> None:
        """Read jobs submitted since, and how many started and ended since the oldest of them. Two
        queries; one more for requests not cached yet."""
        columns = ("id", "uid", "cpu_milli", "memory_mib", "replica_count", "submitted_at")
        jobs = Job.objects.filter(id__gt=self._settled()).order_by("-id")[:LAST_SUBMITTED]
        new = [row for row in jobs.values_list(*columns) if row[0] not in self._rows]
        if new:
            specs = request_specs(row[1] for row in new)
            self._rows |= {pk: _Submitted(specs[uid], *rest) for pk, uid, *rest in new}
            self._rows = {pk: self._rows[pk] for pk in sorted(self._rows)[-LAST_SUBMITTED:]}
            self._demands = _demands(self._rows.values())
        if self._rows:
            departing = _departing(min(row.at for row in self._rows.values()))
            self.mix = DemandMix(self._demands, departing)

    def _settled(self) -> int:
        """The id up to which no unread row can appear any more."""
        if not self._rows:
            return 0
        newest = max(row.at for row in self._rows.values())
        return max((pk for pk, row in self._rows.items() if row.at <= newest - LATE), default=0)


def mix() -> DemandMix:
    """The requests of recently submitted jobs, by replica, the most frequent first."""
    submissions = SubmissionHistory()
    submissions.refresh()
    return submissions.mix


def past_runs() -> tuple[PastRun, ...]:
    """The most recent ended runs, in the order of their end."""
    history = RunHistory()
    history.refresh()
    return history.runs


def _past_run(row: tuple[Any, ...], spec: RequestSpec) -> PastRun:
    """`row` has RUN_COLUMNS."""
    finished_at: datetime = row[1]
    project, user, name, replicas, limit, is_chosen, attained, *_ = row[3:]
    started_at, queued_at, status = row[10:]
    return PastRun(
        project=project,
        user=user,
        group=run_group(name),
        gpus=replicas * spec.device.gpus,
        limit_seconds=limit,
        limit_is_chosen=is_chosen,
        ran_seconds=attained + max(0, (finished_at - started_at) // SECOND),
        completed=status == JobStatus.SUCCEEDED,
        ended_at=epoch_seconds(finished_at),
        queued_at=epoch_seconds(queued_at) if queued_at else 0,
    )


def _demands(rows: Any) -> tuple[Demand, ...]:
    counts: Counter[tuple[Any, int, int]] = Counter()
    for row in rows:
        counts[row.spec.device, row.cpu_milli, row.memory_mib] += row.replicas
    in_order = sorted(counts.items(), key=lambda item: (-item[1], repr(item[0])))
    return tuple(Demand(*key, count) for key, count in in_order)


def _departing(since: datetime) -> float:
    """Ended jobs per started job since then; 0 if none has started."""
    has_started, has_ended = Q(started_at__gte=since), Q(finished_at__gte=since)
    has_ended &= Q(started_at__isnull=False)
    counts = Job.objects.filter(has_started | has_ended).aggregate(
        started=Count("pk", filter=has_started), ended=Count("pk", filter=has_ended)
    )
    return counts["ended"] / counts["started"] if counts["started"] else 0.0
