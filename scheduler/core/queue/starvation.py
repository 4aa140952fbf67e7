"""Who was overtaken: a job of no higher priority that arrived later started before it.

What overtakes a job got a board that could have served it; or, where the job waits for quota, is
work of its project. Only the first start of a job counts: what goes on after a stop is no new one.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from heapq import nsmallest

from scheduler.core.model.snapshot import PRIORITY_RANK, WaitingJob
from scheduler.core.queue.order import job_sort_key

# In a band so many are counted in a pass, the oldest; the next ones when these have their due.
MAX_COUNTED = 100

Arrival = tuple[int, int, str]


@dataclass(slots=True)
class _Late:
    """The latest arrival that started, by what it got, in one band or a lower one."""

    by_board: dict[str, Arrival]
    by_project: dict[str, Arrival]


class BypassCounter:
    """Of one pass: who waited for something that others got."""

    def __init__(self, bypass_limit: int) -> None:
        self._limit = bypass_limit
        self._waiting: dict[str, tuple[WaitingJob, Collection[str]]] = {}
        self._short: dict[str, WaitingJob] = {}
        self._started: list[tuple[WaitingJob, str]] = []

    def waits_for_devices(self, job: WaitingJob, boards: Collection[str]) -> None:
        """It finds no place on any of these boards."""
        self._waiting[job.id] = (job, boards)

    def waits_for_quota(self, job: WaitingJob) -> None:
        """It waits for quota."""
        self._short[job.id] = job

    def started(self, job: WaitingJob, board: str) -> None:
        if not (job.preempted or job.attained_seconds):
            self._started.append((job, board))

    def bypassed(self) -> tuple[str, ...]:
        """The ids of those that were overtaken, once each, the oldest first; without those that
        were so often enough."""
        if not self._started:
            return ()
        late = {rank: self._late(rank) for rank in PRIORITY_RANK.values()}
        found: dict[int, list[tuple[Arrival, str]]] = {rank: [] for rank in late}
        for job, boards in self._waiting.values():
            rank = PRIORITY_RANK[job.priority]
            self._count(job, (late[rank].by_board.get(b) for b in boards), found[rank])
        for job in self._short.values():
            rank = PRIORITY_RANK[job.priority]
            self._count(job, [late[rank].by_project.get(job.project)], found[rank])
        oldest = [pair for each in found.values() for pair in nsmallest(MAX_COUNTED, each)]
        return tuple(key for _, key in sorted(oldest))

    def _count(
        self, job: WaitingJob, late: Iterable[Arrival | None], found: list[tuple[Arrival, str]]
    ) -> None:
        own = _arrival(job)
        if job.bypassed < self._limit and any(other and other > own for other in late):
            found.append((own, job.id))

    def _late(self, rank: int) -> _Late:
        late = _Late({}, {})
        for job, board in self._started:
            if PRIORITY_RANK[job.priority] >= rank:
                arrival = _arrival(job)
                for latest, key in ((late.by_board, board), (late.by_project, job.project)):
                    latest[key] = max(arrival, latest.get(key, arrival))
        return late


def _arrival(job: WaitingJob) -> Arrival:
    return (job.queued_at, *job_sort_key(job.id))
