"""Lenders before borrowers: whose turn it is, and who stops when a project wants its quota back.

Who uses its own quota stands before those of its band who would borrow, as else a borrower could
take again what was just taken back. See `quota.reclaim` for who stops.
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
# Where a borrower stands does not matter: whoever lent to it comes before it.
LAST_RANK: Rank = (len(Priority), 1, inf)


class QuotaReclaim:
    """Of one pass. `can_stop`: whether work may be stopped for who lent to it."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, ledger: Ledger) -> None:
        self._ledger = ledger
        self._nodes = snapshot.nodes
        self._left = {run.job.id: run for run in snapshot.running}
        self._some = any(quota.borrow_units for quota in snapshot.quotas)
        self.can_reclaim = self._some and policy.preemption is not PreemptionMode.OFF

    def lenders_first(self, turns: Iterable[QueueTurn], ways: OptionsOf) -> Iterator[QueueTurn]:
        """The turns, where those who would borrow come last in their band, in the same order. Who
        was overtaken too often keeps its turn."""
        if not self._some:
            yield from turns
            return
        later: list[QueueTurn] = []
        for job, rank in turns:
            if later and later[0][1][0] != rank[0]:
                yield from later
                later = []
            if rank[1] and self._would_borrow(job, ways(job)):
                later.append((job, rank))
            else:
                yield job, rank
        yield from later

    def make_room(
        self, job: WaitingJob, ways: list[DeviceOption], stopping: Sequence[PreemptibleJob]
    ) -> PreemptionChoice | None:
        """Places for a job within its project's nominal quota, where borrowers go; the ledger then
        holds the job there without them. None: the ledger is as it was."""
        if not self.can_reclaim:
            return None
        ledger, left = self._ledger, self._left.values()
        boards = ledger.cached("boards", lambda: board_of_gpus(self._nodes), for_whole_pass=True)
        for want in ways:
            units = want.replica_units * job.replicas
            asked = reclaim_candidates(left, ledger.accounts, job, units, want.board, boards)
            if room := self._of(job, want, asked, stopping):
                return room
        return None

    def _of(
        self,
        job: WaitingJob,
        want: DeviceOption,
        asked: Sequence[RunningJob],
        stopping: Sequence[PreemptibleJob],
    ) -> PreemptionChoice | None:
        ledger = self._ledger
        mark = ledger.mark()

        def without(runs: Sequence[RunningJob]) -> GangPlacement | None:
            ledger.rollback(mark)
            for run in (*(victim.run for victim in stopping), *runs):
                ledger.release(run.job, run.replicas)
            return find_with_merges(job, [want], ledger)

        chosen = smallest_victim_set(asked, lambda runs: without(runs) is not None)
        found = without(chosen) if chosen else None
        if found is None:
            ledger.rollback(mark)
            return None
        stop = [PreemptibleJob(run, LAST_RANK, PreemptionCause.RECLAIM) for run in chosen]
        return PreemptionChoice(found, [*on_nodes_of(stopping, [found]), *stop])

    def mark_stopping(self, stopped: Iterable[PreemptibleJob]) -> None:
        """They stop already, for somebody."""
        for victim in stopped:
            self._left.pop(victim.run.job.id, None)

    def _would_borrow(self, job: WaitingJob, ways: list[DeviceOption]) -> bool:
        """Whether its project's quota is too small for every way."""
        accounts = self._ledger.accounts
        sizes = ((want.replica_units * job.replicas, want.board) for want in ways)
        return all(accounts.has_to_borrow(job.project, *size) for size in sizes)
