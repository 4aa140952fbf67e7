"""Who is next: priority first, then who holds least of their quota, then age, then id."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction

from scheduler.core.ledger import Ledger
from scheduler.core.values import PRIORITY_RANK, WaitingJob


def in_turn(jobs: Iterable[WaitingJob], ledger: Ledger) -> Iterator[WaitingJob]:
    """The waiting jobs, one by one. What is placed meanwhile counts at once: the ledger is asked
    anew for every turn, so a greedy project steps back after each job it gets."""
    by_rank: dict[int, list[WaitingJob]] = defaultdict(list)
    for job in jobs:
        by_rank[PRIORITY_RANK[job.priority]].append(job)
    for rank in sorted(by_rank):
        yield from _fairly(by_rank[rank], ledger)


def _fairly(jobs: list[WaitingJob], ledger: Ledger) -> Iterator[WaitingJob]:
    queues: dict[tuple[str, str], list[WaitingJob]] = defaultdict(list)
    for job in sorted(jobs, key=lambda j: (j.queued_at, _number(j.id)), reverse=True):
        queues[job.project, job.user].append(job)
    while queues:
        owner = min(queues, key=lambda o: (*_shares(o, ledger), _age(queues[o][-1])))
        yield queues[owner].pop()
        if not queues[owner]:
            del queues[owner]


def _shares(owner: tuple[str, str], ledger: Ledger) -> tuple[Fraction, Fraction]:
    """How much of the project's, then of the user's own quota is held."""
    return (_share((owner[0], ""), ledger), _share(owner, ledger))


def _share(key: tuple[str, str], ledger: Ledger) -> Fraction:
    account = ledger.accounts.get(key)
    if account is None:
        return Fraction(0)
    return Fraction(account.used, max(1, account.limit))


def _age(job: WaitingJob) -> tuple[int, tuple[int, str]]:
    return (job.queued_at, _number(job.id))


def _number(job_id: str) -> tuple[int, str]:
    """Ids that are numbers sort as numbers."""
    return (int(job_id), "") if job_id.isdecimal() else (0, job_id)
