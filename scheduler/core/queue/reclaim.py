"""Quota between projects: lenders come before borrowers, and may stop them to get quota back.

A job within its project's own quota comes before the jobs of its band that would have to borrow;
otherwise a borrower could take again what was just reclaimed. `quota.reclaim` says which borrowers
stop.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.decisions import PreemptionCause
from scheduler.core.model.policy import Policy, PreemptionMode
from scheduler.core.model.snapshot import ClusterSnapshot, Priority, RunningJob, WaitingJob
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.search import GangPlacement
from scheduler.core.queue.order import Rank
from scheduler.core.queue.preemption import OptionsOf, PreemptionChoice, on_nodes_of
from scheduler.core.queue.reservation import find_with_merges
from scheduler.core.queue.running import PreemptibleJob
from scheduler.core.quota.holders import board_of_gpus
from scheduler.core.quota.reclaim import reclaim_candidates, smallest_victim_set

QueueTurn = tuple[WaitingJob, Rank]
# A borrower's own rank does not matter: every lender comes before it.
LAST_RANK: Rank = (len(Priority), 1, inf)


class QuotaReclaim:
    """Order of lenders and borrowers, and reclaim, in one pass."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, ledger: Ledger) -> None:
        self._ledger = ledger
        self._nodes = snapshot.nodes
        self._stoppable = {run.job.id: run for run in snapshot.running}
        self._has_borrowing = any(quota.borrow_units for quota in snapshot.quotas)
        self.can_reclaim = self._has_borrowing and policy.preemption is not PreemptionMode.OFF
        """Whether borrowers may be stopped at all."""

    def lenders_first(self, turns: Iterable[QueueTurn], options: OptionsOf) -> Iterator[QueueTurn]:
        """The turns, with jobs that would borrow last in their band, otherwise in the same order. A
        job at the bypass limit keeps its turn."""
        if not self._has_borrowing:
            yield from turns
            return
        later: list[QueueTurn] = []
        for job, rank in turns:
            if later and later[0][1][0] != rank[0]:
                yield from later
                later = []
            if rank[1] and self._has_to_borrow(job, options(job)):
                later.append((job, rank))
            else:
                yield job, rank
        yield from later

    def make_room(
        self, job: WaitingJob, options: list[DeviceOption], stopping: Sequence[PreemptibleJob]
    ) -> PreemptionChoice | None:
        """A placement for a job within its project's nominal quota if borrowers stop; the ledger
        then holds it without them. None: the ledger is as it was."""
        if not self.can_reclaim:
            return None
        ledger, runs = self._ledger, self._stoppable.values()
        boards = ledger.cached("boards", lambda: board_of_gpus(self._nodes), for_whole_pass=True)
        for option in options:
            units = option.replica_units * job.replicas
            borrowers = reclaim_candidates(runs, ledger.accounts, job, units, option.board, boards)
            if choice := self._choose(job, option, borrowers, stopping):
                return choice
        return None

    def _choose(
        self,
        job: WaitingJob,
        option: DeviceOption,
        borrowers: Sequence[RunningJob],
        stopping: Sequence[PreemptibleJob],
    ) -> PreemptionChoice | None:
        ledger = self._ledger
        mark = ledger.mark()

        def find_without(runs: Sequence[RunningJob]) -> GangPlacement | None:
            ledger.rollback(mark)
            for run in (*(each.run for each in stopping), *runs):
                ledger.release(run.job, run.replicas)
            return find_with_merges(job, [option], ledger)

        chosen = smallest_victim_set(borrowers, lambda runs: find_without(runs) is not None)
        placement = find_without(chosen) if chosen else None
        if placement is None:
            ledger.rollback(mark)
            return None
        stops = [PreemptibleJob(run, LAST_RANK, PreemptionCause.RECLAIM) for run in chosen]
        return PreemptionChoice(placement, [*on_nodes_of(stopping, [placement]), *stops])

    def mark_stopping(self, stops: Iterable[PreemptibleJob]) -> None:
        """These jobs stop already; no other job may choose them."""
        for each in stops:
            self._stoppable.pop(each.run.job.id, None)

    def _has_to_borrow(self, job: WaitingJob, options: list[DeviceOption]) -> bool:
        """Whether the project's own quota is too small for every option."""
        accounts = self._ledger.accounts
        sizes = ((option.replica_units * job.replicas, option.board) for option in options)
        return all(accounts.has_to_borrow(job.project, *size) for size in sizes)
