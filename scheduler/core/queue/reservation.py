"""What is promised to blocked jobs: the earliest time when enough is free, and where.

Each promise has a ledger of the cluster as it will be at that time, if running work ends by its
limits. A job that still runs then must fit into that ledger beside the promised places. Between two
promises things only become free, so it is enough to look at the times of the promises.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agents.contract.documents import SliceKind
from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.decisions import (
    DevicePlacement,
    JobPlacement,
    ReplicaPlacement,
    Reservation,
)
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.placement.ledger import GpuSpace, Ledger
from scheduler.core.placement.legality import reserve_if_legal
from scheduler.core.placement.search import GangPlacement, find_placement
from scheduler.core.queue.gpu_counts import FreeGpuCounts
from scheduler.core.queue.order import Rank
from scheduler.core.queue.running import AllocatedJob
from scheduler.core.quota.budgets import remaining_seconds

Departures = list[tuple[int, AllocatedJob]]


@dataclass(slots=True)
class JobReservation:
    """`ledger`: the cluster at `starts_at` without the promised places themselves."""

    job: WaitingJob
    rank: Rank
    options: list[DeviceOption]
    starts_at: int
    ends_at: int
    replicas: tuple[ReplicaPlacement, ...]
    ledger: Ledger


class ReservationTable:
    """The promises of one pass. `now` is its ledger; `occupants` by job id, kept by the pass."""

    def __init__(
        self, now: int, policy: Policy, ledger: Ledger, occupants: dict[str, AllocatedJob]
    ) -> None:
        self._now = now
        self._policy = policy
        self._ledger = ledger
        self._occupants = occupants
        self.entries: list[JobReservation] = []

    def decisions(self) -> tuple[Reservation, ...]:
        return tuple(Reservation(p.job.id, p.starts_at, p.replicas) for p in self.entries)

    def overlapping(self, starting: AllocatedJob) -> list[JobReservation]:
        """The promises to others that begin before a job that starts now leaves."""
        others = (p for p in self.entries if p.job.id != starting.job.id)
        return [p for p in others if p.starts_at < starting.leaves_at(p.rank, self._policy)]

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Whatever is asked of them meanwhile, the promises stay as they are."""
        marks = [(p, p.ledger.mark(), p.replicas) for p in self.entries]
        try:
            yield
        finally:
            for promise, mark, replicas in marks:
                promise.ledger.rollback(mark)
                promise.replicas = replicas

    def reserve(
        self, job: WaitingJob, rank: Rank, ways: list[DeviceOption], seconds: int
    ) -> JobReservation | None:
        """The earliest time for a blocked job that runs `seconds`; None where no end of running
        work would help."""
        least, policy = self._now + 1, self._policy
        leaving = [(max(least, o.leaves_at(rank, policy)), o) for o in self._occupants.values()]
        leaving.sort(key=lambda pair: (pair[0], pair[1].job.id))
        then = self._ledger.copy()
        times = sorted({*(at for at, _ in leaving), *(p.ends_at for p in self.entries)})
        first = _first_by_count(times, leaving, job, ways, then)

        def fits(at: int) -> bool:
            return self._fits_at(at, job, ways, leaving, then)

        if first < len(times) and not fits(times[first]):
            first = bisect_left(times, True, first, key=fits)
        for at in times[first:]:
            ends_at = at + seconds
            _let_go(then, leaving, at)
            for other in self.entries:
                if other.starts_at <= at < other.ends_at:
                    _hold(then, other.job, other.replicas)
            kept = then.mark()
            later = [p for p in self.entries if at < p.starts_at < ends_at]
            with without_reserved(then, later):
                found = find_with_merges(job, ways, then)
            if found is not None:
                then.rollback(kept)
                return self._keep(
                    JobReservation(job, rank, ways, at, ends_at, tuple(found.replicas), then)
                )
            then.rollback(0)
        return None

    def admit(
        self,
        starting: AllocatedJob,
        found: GangPlacement,
        gone: Iterable[AllocatedJob] = (),
    ) -> JobReservation | None:
        """None when nobody is delayed if the job starts now at the `found` places, which the
        promises' ledgers hold from then on. Else the promise that would be broken.

        `gone`: who stops now to make room. A single promise may find another place for the same
        time."""
        crossed = self.overlapping(starting)
        marks = [(p, p.ledger.mark(), p.replicas) for p in crossed]
        for promise in crossed:
            for other in gone:
                if other.leaves_at(promise.rank, self._policy) > promise.starts_at:
                    promise.ledger.release(other.job, other.replicas)
            if not self._stands(promise, starting.job, found):
                for touched, mark, replicas in marks:
                    touched.ledger.rollback(mark)
                    touched.replicas = replicas
                return promise
        return None

    def _stands(self, promise: JobReservation, job: WaitingJob, found: GangPlacement) -> bool:
        then = promise.ledger
        for gpu, slices in found.merges.items():
            space = then.gpus[gpu]
            there = [key for key in slices if key in space.slices and space.is_idle(key)]
            then.delete_idle(space, there)
        if reserve_if_legal(JobPlacement(job.id, tuple(found.replicas)), job, then) is not None:
            return False
        kept = then.mark()
        own = reserve_if_legal(JobPlacement(promise.job.id, promise.replicas), promise.job, then)
        if own is not None and len(self.entries) == 1:
            other = find_with_merges(promise.job, promise.options, then)
            promise.replicas = tuple(other.replicas) if other else promise.replicas
            own = None if other else own
        then.rollback(kept)
        return own is None

    def _keep(self, promise: JobReservation) -> JobReservation:
        for other in self.entries:
            if promise.starts_at <= other.starts_at < promise.ends_at:
                _hold(other.ledger, promise.job, promise.replicas)
        self.entries.append(promise)
        return promise

    def _fits_at(
        self, at: int, job: WaitingJob, ways: list[DeviceOption], leaving: Departures, then: Ledger
    ) -> bool:
        """Whether the job would fit if no promise were made: more so the later it is."""
        _let_go(then, leaving, at)
        fits = find_with_merges(job, ways, then) is not None
        then.rollback(0)
        return fits


@contextmanager
def without_reserved(ledger: Ledger, promises: list[JobReservation]) -> Iterator[None]:
    """The ledger without what is promised. What was done on it meanwhile is rolled back."""
    mark = ledger.mark()
    for promise in promises:
        on = Counter(replica.node for replica in promise.replicas)
        for key, replicas in on.items():
            node, then = ledger.nodes[key], promise.ledger.nodes[key]
            cpu = then.cpu_free_milli - replicas * promise.job.cpu_milli
            memory = then.memory_free_mib - replicas * promise.job.memory_mib
            disk = then.disk_free_mib - replicas * promise.job.disk_mib
            less = (max(0, node.cpu_free_milli - cpu), max(0, node.memory_free_mib - memory))
            ledger.reserve_host(node, *less, max(0, node.disk_free_mib - disk))
        for replica in promise.replicas:
            for device in replica.devices:
                _block(ledger, device, promise.job)
    try:
        yield
    finally:
        ledger.rollback(mark)


def _block(ledger: Ledger, place: DevicePlacement, job: WaitingJob) -> None:
    """Nobody may have this place; where it is partly taken, nobody may have anything there."""
    gpu = ledger.gpus[place.gpu]
    if place.slice in gpu.slices and gpu.is_idle(place.slice):
        ledger.reserve_device(place, job)
    elif _is_free(gpu, place):
        new = DevicePlacement(place.gpu, place.kind, place.profile, place.start, place.size, 0, 0)
        ledger.reserve_device(new if place.kind is not SliceKind.MPS else place, job)
    else:
        whole = DevicePlacement(place.gpu, SliceKind.GPU, "", 0, gpu.board.memory_slices, 0, 0)
        ledger.reserve_device(whole, job)


def _is_free(gpu: GpuSpace, place: DevicePlacement) -> bool:
    there = [*gpu.slices.values(), *gpu.deleted_slices.values()]
    if place.kind is not SliceKind.MIG:
        return not there
    end = place.start + place.size
    apart = all(s.start >= end or s.start + s.size <= place.start for s in there)
    return gpu.may_carve() and apart


def find_with_merges(
    job: WaitingJob, ways: list[DeviceOption], ledger: Ledger
) -> GangPlacement | None:
    """As `place.find`, cheapest way first; idle slices will have been merged where needed."""
    for merging in (False, True) if ledger.has_idle else (False,):
        for want in ways:
            if found := find_placement(job, want, ledger, merging=merging):
                return found
    return None


def _let_go(ledger: Ledger, leaving: Departures, at: int) -> None:
    for leaves_at, occupant in leaving:
        if leaves_at > at:
            return
        ledger.release(occupant.job, occupant.replicas)


def _first_by_count(
    times: list[int], leaving: Departures, job: WaitingJob, ways: list[DeviceOption], ledger: Ledger
) -> int:
    """The index of the first time before which not even the numbers of free GPUs would do."""
    counts, gone = FreeGpuCounts(ledger), 0
    for index, at in enumerate(times):
        while gone < len(leaving) and leaving[gone][0] <= at:
            counts.release(leaving[gone][1].replicas)
            gone += 1
        if counts.may_fit(job, ways):
            return index
    return len(times)


def _hold(ledger: Ledger, job: WaitingJob, replicas: Iterable[ReplicaPlacement]) -> None:
    for replica in replicas:
        ledger.reserve_host(ledger.nodes[replica.node], job.cpu_milli, job.memory_mib, job.disk_mib)
        for device in replica.devices:
            _block(ledger, device, job)


def reserve_placement(ledger: Ledger, job: WaitingJob, found: GangPlacement) -> None:
    """Take places that are known to be free."""
    for gpu, slices in found.merges.items():
        space = ledger.gpus[gpu]
        ledger.delete_idle(space, [k for k in slices if k in space.slices and space.is_idle(k)])
    for replica in found.replicas:
        ledger.reserve_host(ledger.nodes[replica.node], job.cpu_milli, job.memory_mib, job.disk_mib)
        for device in replica.devices:
            ledger.reserve_device(device, job)
    units = sum(device.units for replica in found.replicas for device in replica.devices)
    model = next(ledger.gpus[d.gpu].board.key for r in found.replicas for d in r.devices)
    ledger.charge(job.project, job.user, units, model, remaining_seconds(job))
