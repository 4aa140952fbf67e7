"""Counts bypasses: a job that arrived later, of no higher priority, started first.

The later job has to start on a board that could have served the waiting one; or, if that job waits
for quota, belong to its project. Only the first start of a job counts: a job that continues after a
stop bypasses nobody.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from heapq import nsmallest

from scheduler.core.model.snapshot import PRIORITY_RANK, WaitingJob
from scheduler.core.queue.order import job_sort_key

# Per band and pass, only the oldest jobs are counted; the next ones follow when these have started.
MAX_COUNTED = 100

Arrival = tuple[int, int, str]


@dataclass(slots=True)
class _LatestStarts:
    """The latest arrival that started in this band or a lower one."""

    by_board: dict[str, Arrival]
    by_project: dict[str, Arrival]


class BypassCounter:
    """The jobs that waited, and those that started, in one pass."""

    def __init__(self, bypass_limit: int) -> None:
        self._limit = bypass_limit
        self._waiting: dict[str, tuple[WaitingJob, Collection[str]]] = {}
        self._short: dict[str, WaitingJob] = {}
        self._started: list[tuple[WaitingJob, str]] = []

    def waits_for_devices(self, job: WaitingJob, boards: Collection[str]) -> None:
        """The job finds no place on any of these boards."""
        self._waiting[job.id] = (job, boards)

    def waits_for_quota(self, job: WaitingJob) -> None:
        self._short[job.id] = job

    def board_has_queue(self, board: str) -> bool:
        """Whether a job waits for devices that this board could serve."""
        return any(board in boards for _, boards in self._waiting.values())

    def has_short(self, project: str) -> bool:
        """Whether a job of the project waits for quota."""
        return any(job.project == project for job in self._short.values())

    def started(self, job: WaitingJob, board: str) -> None:
        if not (job.preempted or job.attained_seconds):
            self._started.append((job, board))

    def bypassed(self) -> tuple[str, ...]:
        """Ids of the jobs bypassed in this pass, oldest first, except those already at
        `bypass_limit`."""
        if not self._started:
            return ()
        latest = {rank: self._latest_starts(rank) for rank in PRIORITY_RANK.values()}
        by_rank: dict[int, list[tuple[Arrival, str]]] = {rank: [] for rank in latest}
        for job, boards in self._waiting.values():
            rank = PRIORITY_RANK[job.priority]
            starts = (latest[rank].by_board.get(board) for board in boards)
            self._count(job, starts, by_rank[rank])
        for job in self._short.values():
            rank = PRIORITY_RANK[job.priority]
            self._count(job, [latest[rank].by_project.get(job.project)], by_rank[rank])
        oldest = [pair for each in by_rank.values() for pair in nsmallest(MAX_COUNTED, each)]
        return tuple(key for _, key in sorted(oldest))

    def _count(
        self, job: WaitingJob, starts: Iterable[Arrival | None], bypassed: list[tuple[Arrival, str]]
    ) -> None:
        own = _arrival(job)
        if job.bypassed < self._limit and any(other and other > own for other in starts):
            bypassed.append((own, job.id))

    def _latest_starts(self, rank: int) -> _LatestStarts:
        latest = _LatestStarts({}, {})
        for job, board in self._started:
            if PRIORITY_RANK[job.priority] >= rank:
                arrival = _arrival(job)
                for table, key in ((latest.by_board, board), (latest.by_project, job.project)):
                    table[key] = max(arrival, table.get(key, arrival))
        return latest


def _arrival(job: WaitingJob) -> Arrival:
    return (job.queued_at, *job_sort_key(job.id))
