"""The order of the queue: priority band, then the key of the policy's order, then age, then id.

`QueueOrder` computes one job's key; `QueueIterator` walks the queue while owners' factors grow.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from scheduler.core.model.policy import OrderMode, Policy
from scheduler.core.model.snapshot import PRIORITY_RANK, RunningJob, WaitingJob
from scheduler.core.placement.ledger import Ledger

# (band, 0 if at the bypass limit else 1, key), smallest first. The key of a job at the bypass limit
# is when it was queued, so that each such job comes first in its band one day.
Rank = tuple[int, int, float]


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
        if job.bypassed >= self._policy.bypass_limit:
            return (band, 0, float(job.queued_at))
        return (band, 1, key * factor)


class QueueIterator:
    """The waiting jobs with their ranks, first job first.

    Placements of the pass count at once: an owner's factor only grows, so a job whose key has grown
    goes back into the heap, and the next one is considered.
    """

    def __init__(self, jobs: Iterable[WaitingJob], order: QueueOrder) -> None:
        self._jobs = list(jobs)
        self._order = order

    def __iter__(self) -> Iterator[tuple[WaitingJob, Rank]]:
        order = self._order
        keys = [order.waiting_key(job) for job in self._jobs]
        heap = [
            (order.rank(job, key, order.owner_factor(job)), job.queued_at, job_sort_key(job.id), i)
            for i, (job, key) in enumerate(zip(self._jobs, keys, strict=True))
        ]
        if not order.is_fair:
            for rank, _, _, index in sorted(heap):
                yield self._jobs[index], rank
            return
        heapq.heapify(heap)
        while heap:
            rank, queued_at, number, index = heap[0]
            job = self._jobs[index]
            current = order.rank(job, keys[index], order.owner_factor(job))
            if current > rank:
                heapq.heapreplace(heap, (current, queued_at, number, index))
                continue
            heapq.heappop(heap)
            yield job, rank


def job_sort_key(job_id: str) -> tuple[int, str]:
    """Ids that are numbers sort as numbers."""
    return (int(job_id), "") if job_id.isdecimal() else (0, job_id)
