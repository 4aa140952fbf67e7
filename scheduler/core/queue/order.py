"""The order of the queue: priority band, then the key of the policy's order, then age, then id.

`QueueOrder` computes one job's key; `QueueIterator` walks the queue while owners' factors grow.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from scheduler.core.model.policy import OrderMode, Policy
from scheduler.core.model.snapshot import PRIORITY_RANK, RunningJob, WaitingJob
from scheduler.core.placement.ledger import Ledger

# (band, 0 if at the bypass limit else 1, key), smallest first. The key of a job at the bypass limit
# is when it was queued, so that each such job comes first in its band one day.
Rank = tuple[int, int, float]
# When a job was queued, its id as a sort key, and its index among the jobs; smallest first among
# jobs of equal rank.
Arrival = tuple[int, tuple[int, str], int]
BEFORE_ALL: Arrival = (-(1 << 62), (0, ""), -1)


class WorkEstimator(Protocol):
    """Estimates how much work a job still is."""

    def work(self, job: WaitingJob, gpus: float, now: int) -> float:
        """A key in GPU-seconds: small for a job expected to end with little more work."""


class OwnerShares(Protocol):
    """How much of its share an owner has used; grows with what the pass places for it."""

    def factor(self, project: str, user: str) -> float: ...

    def charge(
        self, project: str, user: str, units: int, cpu_milli: int, memory_mib: int, seconds: int
    ) -> None: ...


class LimitWorkEstimator:
    """Without a history: half of the remaining time limit."""

    def work(self, job: WaitingJob, gpus: float, now: int) -> float:
        return 0.5 * max(1, job.time_limit_seconds - job.attained_seconds) * gpus


class QuotaShares:
    """Owners by the part of their quota in use: the project's quota and the user's."""

    def __init__(self, ledger: Ledger) -> None:
        self._accounts = ledger.accounts

    def factor(self, project: str, user: str) -> float:
        if not self._accounts:
            return 1.0
        return (1 + self._share(project, "")) * (1 + self._share(project, user))

    def charge(
        self, project: str, user: str, units: int, cpu_milli: int, memory_mib: int, seconds: int
    ) -> None:
        """Nothing to do: the ledger counts it."""

    def _share(self, project: str, user: str) -> float:
        account = self._accounts.account((project, user))
        return account.in_use / max(1, account.limit) if account else 0.0


class QueueOrder:
    """Keys and ranks of one pass. `gpus_of` gives a job's GPUs, all replicas together."""

    def __init__(
        self,
        policy: Policy,
        now: int,
        gpus_of: Callable[[WaitingJob], float],
        shares: OwnerShares,
        estimator: WorkEstimator | None = None,
    ) -> None:
        self._policy = policy
        self._now = now
        self._gpus_of = gpus_of
        self._shares = shares
        self._estimator = estimator or LimitWorkEstimator()
        self.is_fair = policy.order is OrderMode.FAIR

    def base_key(self, job: WaitingJob) -> float:
        """The part of the key that stays the same during the pass."""
        match self._policy.order:
            case OrderMode.FIFO:
                return float(job.queued_at)
            case OrderMode.SHORTEST:
                return float(job.time_limit_seconds - job.attained_seconds)
            case OrderMode.SMALLEST:
                left = job.time_limit_seconds - job.attained_seconds
                return left * self._gpus_of(job)
        return self._estimator.work(job, self._gpus_of(job), self._now)

    def waiting_key(self, job: WaitingJob) -> float:
        """`base_key`; in the fair order, a long wait makes it smaller."""
        if not self.is_fair:
            return self.base_key(job)
        wait = max(0, self._now - job.queued_at)
        return self.base_key(job) / (1 + wait / max(1, self._policy.patience_seconds))

    def owner_factor(self, job: WaitingJob) -> float:
        return self._shares.factor(job.project, job.user) if self.is_fair else 1.0

    def running_rank(self, run: RunningJob) -> Rank:
        """The rank of a running job among the waiting ones, as of now."""
        job = run.job
        attained = job.attained_seconds + max(0, self._now - run.started_at)
        key = self.base_key(replace(job, attained_seconds=attained)) * self.owner_factor(job)
        if self._policy.order is not OrderMode.FIFO:
            key /= self._policy.hysteresis
        return (PRIORITY_RANK[job.priority], 1, key)

    def rank_once_running(self, job: WaitingJob, rank: Rank) -> Rank:
        """The rank that a waiting job of this rank will have when it runs."""
        band, in_turn, key = rank
        if not in_turn:
            key = self.waiting_key(job) * self.owner_factor(job)
        is_fifo = self._policy.order is OrderMode.FIFO
        return (band, 1, key if is_fifo else key / self._policy.hysteresis)

    def rank(self, job: WaitingJob, key: float, factor: float) -> Rank:
        """From the job's waiting key and its owner's factor."""
        band = PRIORITY_RANK[job.priority]
        if self.is_overdue(job):
            return (band, 0, float(job.queued_at))
        return (band, 1, key * factor)

    def is_overdue(self, job: WaitingJob) -> bool:
        """Whether the job was bypassed as often as the policy allows."""
        return job.bypassed >= self._policy.bypass_limit


class QueueIterator:
    """The waiting jobs with their ranks, first job first.

    Placements of the pass count at once: they raise the factor of their owner, and thereby the keys
    of all its other jobs. Those keep their order among themselves, so only the first job of each
    owner and band is compared with others: a pass over n jobs of one owner takes O(n log n) steps,
    where a heap of all jobs would push n jobs down after each placement.
    """

    def __init__(self, jobs: Iterable[WaitingJob], order: QueueOrder) -> None:
        self._jobs = list(jobs)
        self._order = order

    def __iter__(self) -> Iterator[tuple[WaitingJob, Rank]]:
        if self._order.is_fair:
            return self._fair()
        return self._fixed()

    def _fixed(self) -> Iterator[tuple[WaitingJob, Rank]]:
        """Without factors, ranks stay as they are."""
        order = self._order
        ranks = [order.rank(job, order.waiting_key(job), 1.0) for job in self._jobs]
        arrivals = [_arrival(index, job) for index, job in enumerate(self._jobs)]
        for rank, (_, _, index) in sorted(zip(ranks, arrivals, strict=True)):
            yield self._jobs[index], rank

    def _fair(self) -> Iterator[tuple[WaitingJob, Rank]]:
        groups = self._groups()
        # An entry is a lower bound: ranks only grow, so a group whose first job, as of now, does
        # not come after any other entry comes before all jobs of the others.
        heap = [(*group.first(), number) for number, group in enumerate(groups)]
        heapq.heapify(heap)
        while heap:
            number = heap[0][-1]
            group = groups[number]
            entry = (*group.first(), number)
            if len(heap) > 1 and (heap[1] < entry or (len(heap) > 2 and heap[2] < entry)):
                heapq.heapreplace(heap, entry)
                continue
            group.remove_first()
            yield self._jobs[entry[1][2]], entry[0]
            if group:
                heapq.heapreplace(heap, (group.bound(), BEFORE_ALL, number))
            else:
                heapq.heappop(heap)

    def _groups(self) -> list["_OwnerQueue"]:
        order = self._order
        members: dict[tuple[str, str, int, bool], list[tuple[float, Arrival]]] = defaultdict(list)
        for index, job in enumerate(self._jobs):
            overdue = order.is_overdue(job)
            # Jobs at the bypass limit go by arrival alone.
            key = float(job.queued_at) if overdue else order.waiting_key(job)
            group = (job.project, job.user, PRIORITY_RANK[job.priority], overdue)
            members[group].append((key, _arrival(index, job)))
        return [
            _OwnerQueue(order, self._jobs[each[0][1][2]], band, overdue, each)
            for (_, _, band, overdue), each in members.items()
        ]


class _OwnerQueue:
    """The jobs of one owner in one band that are all below the bypass limit, or all at it.

    A common factor keeps them in order of their keys. Rounding may make the products of keys that
    differ in their last bits equal, and then the earlier arrival comes first; so jobs stand by key,
    and the first jobs of neighbouring keys are compared (at most three, as no factor is below 0.5).
    """

    __slots__ = ("_band", "_by_key", "_factor", "_first", "_in_turn", "_job", "_order")

    def __init__(
        self,
        order: QueueOrder,
        job: WaitingJob,
        band: int,
        overdue: bool,
        members: list[tuple[float, Arrival]],
    ) -> None:
        """`job`: any of them."""
        self._order, self._job, self._band = order, job, band
        self._in_turn = 0 if overdue else 1
        self._factor = 1.0 if overdue else 0.0
        # Last job first, so that jobs are taken from the end.
        self._by_key: list[tuple[float, list[Arrival]]] = []
        for key, arrival in sorted(members, reverse=True):
            if not self._by_key or self._by_key[-1][0] != key:
                self._by_key.append((key, []))
            self._by_key[-1][1].append(arrival)
        self._first = -1

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def first(self) -> tuple[Rank, Arrival]:
        """The first job's rank, as of now, and its arrival."""
        if self._in_turn:
            # Stopping a job for another may shrink its owner's use; ranks must not shrink.
            self._factor = max(self._factor, self._order.owner_factor(self._job))
        by_key, factor = self._by_key, self._factor
        position = self._first = len(by_key) - 1
        key, arrivals = by_key[position]
        product, arrival = key * factor, arrivals[-1]
        while position:
            position -= 1
            key, arrivals = by_key[position]
            if key * factor != product:
                break
            if arrivals[-1] < arrival:
                arrival, self._first = arrivals[-1], position
        return (self._band, self._in_turn, product), arrival

    def bound(self) -> Rank:
        """No job of the group has a rank below this one, now or later."""
        return (self._band, self._in_turn, self._by_key[-1][0] * self._factor)

    def remove_first(self) -> None:
        """Remove the job that `first` has named."""
        arrivals = self._by_key[self._first][1]
        arrivals.pop()
        if not arrivals:
            del self._by_key[self._first]


def _arrival(index: int, job: WaitingJob) -> Arrival:
    return (job.queued_at, job_sort_key(job.id), index)


def job_sort_key(job_id: str) -> tuple[int, str]:
    """Ids that are numbers sort as numbers."""
    return (int(job_id), "") if job_id.isdecimal() else (0, job_id)
