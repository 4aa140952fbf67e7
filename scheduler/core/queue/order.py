"""Who is next: priority bands, then the key of the policy's order, then age, then id.

`Keys` tells one job's key, `Turns` walks the queue while owners' factors grow.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from scheduler.core.model.policy import OrderMode, Policy
from scheduler.core.model.snapshot import PRIORITY_RANK, RunningJob, WaitingJob
from scheduler.core.placement.ledger import Ledger

# band, whether overtaken too often (0) or not (1), key; smallest first. The key of whoever was
# overtaken too often is when it came, so that each of them is the first one day.
Rank = tuple[int, int, float]


class WorkEstimator(Protocol):
    """What is known of how long jobs run."""

    def work(self, job: WaitingJob, gpus: float, now: int) -> float:
        """A key in GPU-seconds: small for who is expected to be done with little more work."""


class OwnerShares(Protocol):
    """How much an owner has of its fair share; grows with what it is given in the pass."""

    def factor(self, project: str, user: str) -> float: ...

    def charge(
        self, project: str, user: str, units: int, cpu_milli: int, memory_mib: int, seconds: int
    ) -> None: ...


class LimitWorkEstimator:
    """Where nothing is known of earlier runs: half of what the limit leaves."""

    def work(self, job: WaitingJob, gpus: float, now: int) -> float:
        return 0.5 * max(1, job.time_limit_seconds - job.attained_seconds) * gpus


class QuotaShares:
    """Owners by how much of their own quota they hold, of the project's and of the user's."""

    def __init__(self, ledger: Ledger) -> None:
        self._accounts = ledger.accounts

    def factor(self, project: str, user: str) -> float:
        if not self._accounts:
            return 1.0
        return (1 + self._share(project, "")) * (1 + self._share(project, user))

    def charge(
        self, project: str, user: str, units: int, cpu_milli: int, memory_mib: int, seconds: int
    ) -> None:
        """The ledger counts it."""

    def _share(self, project: str, user: str) -> float:
        account = self._accounts.account((project, user))
        return account.used / max(1, account.limit) if account else 0.0


class QueueOrder:
    """The order of one pass. `gpus_of` says how many GPUs a job takes, all replicas together."""

    def __init__(
        self,
        policy: Policy,
        now: int,
        gpus_of: Callable[[WaitingJob], float],
        shares: OwnerShares,
        outlook: WorkEstimator | None = None,
    ) -> None:
        self._policy = policy
        self._now = now
        self._gpus_of = gpus_of
        self._shares = shares
        self._outlook = outlook or LimitWorkEstimator()
        self.is_fair = policy.order is OrderMode.FAIR

    def base_key(self, job: WaitingJob) -> float:
        """The key without what changes during the pass."""
        match self._policy.order:
            case OrderMode.FIFO:
                return float(job.queued_at)
            case OrderMode.SHORTEST:
                return float(job.time_limit_seconds - job.attained_seconds)
            case OrderMode.SMALLEST:
                left = job.time_limit_seconds - job.attained_seconds
                return left * self._gpus_of(job)
        return self._outlook.work(job, self._gpus_of(job), self._now)

    def waiting_key(self, job: WaitingJob) -> float:
        """As `base`; in the fair order a long wait makes a job smaller."""
        if not self.is_fair:
            return self.base_key(job)
        wait = max(0, self._now - job.queued_at)
        return self.base_key(job) / (1 + wait / max(1, self._policy.patience_seconds))

    def owner_factor(self, job: WaitingJob) -> float:
        return self._shares.factor(job.project, job.user) if self.is_fair else 1.0

    def running_rank(self, run: RunningJob) -> Rank:
        """Where a running job stands among those that wait, as of now."""
        job = run.job
        served = job.attained_seconds + max(0, self._now - run.started_at)
        seen = replace(job, attained_seconds=served)
        key = self.base_key(seen) * self.owner_factor(job)
        if self._policy.order is not OrderMode.FIFO:
            key /= self._policy.hysteresis
        return (PRIORITY_RANK[job.priority], 1, key)

    def rank_once_running(self, job: WaitingJob, rank: Rank) -> Rank:
        """Where a waiting job of this rank will stand when it runs."""
        band, in_turn, key = rank
        if not in_turn:
            key = self.waiting_key(job) * self.owner_factor(job)
        return (
            band,
            1,
            key if self._policy.order is OrderMode.FIFO else key / self._policy.hysteresis,
        )

    def rank(self, job: WaitingJob, base: float, factor: float) -> Rank:
        band = PRIORITY_RANK[job.priority]
        if job.bypassed >= self._policy.bypass_limit:
            return (band, 0, float(job.queued_at))
        return (band, 1, base * factor)


class QueueIterator:
    """The waiting jobs one by one, with their ranks. What is given meanwhile counts at once: an
    owner's factor only grows, so a job whose key has grown goes back and the next one is looked at.
    """

    def __init__(self, jobs: Iterable[WaitingJob], keys: QueueOrder) -> None:
        self._jobs = list(jobs)
        self._keys = keys

    def __iter__(self) -> Iterator[tuple[WaitingJob, Rank]]:
        keys = self._keys
        bases = [keys.waiting_key(job) for job in self._jobs]
        heap = [
            (
                keys.rank(job, base, keys.owner_factor(job)),
                job.queued_at,
                job_sort_key(job.id),
                index,
            )
            for index, (job, base) in enumerate(zip(self._jobs, bases, strict=True))
        ]
        if not keys.is_fair:
            for rank, _, _, index in sorted(heap):
                yield self._jobs[index], rank
            return
        heapq.heapify(heap)
        while heap:
            rank, queued_at, number, index = heap[0]
            job = self._jobs[index]
            now = keys.rank(job, bases[index], keys.owner_factor(job))
            if now > rank:
                heapq.heapreplace(heap, (now, queued_at, number, index))
                continue
            heapq.heappop(heap)
            yield job, rank


def job_sort_key(job_id: str) -> tuple[int, str]:
    """Ids that are numbers sort as numbers."""
    return (int(job_id), "") if job_id.isdecimal() else (0, job_id)
