"""Reservations for blocked jobs: the earliest time when enough is free, and where.

Each reservation has a ledger of the cluster at its start time, if running jobs end by their limits.
A job that still runs then has to fit into that ledger beside the reserved places. Between two
reservations things only become free, so checking at their start times is enough.
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

# (when it leaves at the latest, the job), by time.
Departures = list[tuple[int, AllocatedJob]]


@dataclass(slots=True)
class JobReservation:
    """A start time and places promised to a blocked job. Times in seconds since the epoch."""

    job: WaitingJob
    rank: Rank
    options: list[DeviceOption]
    starts_at: int
    ends_at: int
    replicas: tuple[ReplicaPlacement, ...]
    ledger: Ledger
    """The cluster at `starts_at`, without the reserved places themselves."""


class ReservationTable:
    """The reservations of one pass."""

    def __init__(
        self, now: int, policy: Policy, ledger: Ledger, allocated: dict[str, AllocatedJob]
    ) -> None:
        """`ledger`: the cluster now; `allocated`: by job id, kept up to date by the pass."""
        self._now = now
        self._policy = policy
        self._ledger = ledger
        self._allocated = allocated
        self.entries: list[JobReservation] = []

    def decisions(self) -> tuple[Reservation, ...]:
        return tuple(Reservation(r.job.id, r.starts_at, r.replicas) for r in self.entries)

    def overlapping(self, starting: AllocatedJob) -> list[JobReservation]:
        """Reservations of other jobs that begin before a job that starts now leaves."""
        others = (r for r in self.entries if r.job.id != starting.job.id)
        return [r for r in others if r.starts_at < starting.leaves_at(r.rank, self._policy)]

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo everything that the block does to the reservations."""
        marks = [(r, r.ledger.mark(), r.replicas) for r in self.entries]
        try:
            yield
        finally:
            _restore(marks)

    def reserve(
        self, job: WaitingJob, rank: Rank, options: list[DeviceOption], seconds: int
    ) -> JobReservation | None:
        """Reserve the earliest time for a blocked job that runs `seconds`. None: it would not fit
        even when all running jobs have ended."""
        earliest, policy = self._now + 1, self._policy
        departures = [
            (max(earliest, a.leaves_at(rank, policy)), a) for a in self._allocated.values()
        ]
        departures.sort(key=lambda pair: (pair[0], pair[1].job.id))
        then = self._ledger.copy()
        times = sorted({*(at for at, _ in departures), *(r.ends_at for r in self.entries)})
        first = _first_by_count(times, departures, job, options, then)

        def fits(at: int) -> bool:
            return self._fits_at(at, job, options, departures, then)

        if first < len(times) and not fits(times[first]):
            first = bisect_left(times, True, first, key=fits)
        for at in times[first:]:
            ends_at = at + seconds
            _release_until(then, departures, at)
            for other in self.entries:
                if other.starts_at <= at < other.ends_at:
                    _block_places(then, other.job, other.replicas)
            mark = then.mark()
            later = [r for r in self.entries if at < r.starts_at < ends_at]
            with without_reserved(then, later):
                found = find_with_merges(job, options, then)
            if found is not None:
                then.rollback(mark)
                return self._add(
                    JobReservation(job, rank, options, at, ends_at, tuple(found.replicas), then)
                )
            then.rollback(0)
        return None

    def admit(
        self,
        starting: AllocatedJob,
        placement: GangPlacement,
        stopping: Iterable[AllocatedJob] = (),
    ) -> JobReservation | None:
        """Let a job start now if that delays no reservation: None, and from then on the ledgers of
        the overlapping reservations hold it. Otherwise the reservation that would be delayed.

        `stopping`: jobs that stop now to make room. A single reservation may find other places for
        the same time."""
        overlapping = self.overlapping(starting)
        marks = [(r, r.ledger.mark(), r.replicas) for r in overlapping]
        for reservation in overlapping:
            for other in stopping:
                if other.leaves_at(reservation.rank, self._policy) > reservation.starts_at:
                    reservation.ledger.release(other.job, other.replicas)
            if not self._is_kept(reservation, starting.job, placement):
                _restore(marks)
                return reservation
        return None

    def _is_kept(
        self, reservation: JobReservation, job: WaitingJob, placement: GangPlacement
    ) -> bool:
        """Whether the reserved job still fits beside `job`, which its ledger holds afterwards."""
        then = reservation.ledger
        _delete_idle(then, placement)
        placed = JobPlacement(job.id, tuple(placement.replicas))
        if reserve_if_legal(placed, job, then) is not None:
            return False
        mark = then.mark()
        own = JobPlacement(reservation.job.id, reservation.replicas)
        fits = reserve_if_legal(own, reservation.job, then) is None
        if not fits and len(self.entries) == 1:
            other = find_with_merges(reservation.job, reservation.options, then)
            if other is not None:
                reservation.replicas, fits = tuple(other.replicas), True
        then.rollback(mark)
        return fits

    def _add(self, reservation: JobReservation) -> JobReservation:
        for other in self.entries:
            if reservation.starts_at <= other.starts_at < reservation.ends_at:
                _block_places(other.ledger, reservation.job, reservation.replicas)
        self.entries.append(reservation)
        return reservation

    def _fits_at(
        self,
        at: int,
        job: WaitingJob,
        options: list[DeviceOption],
        departures: Departures,
        then: Ledger,
    ) -> bool:
        """Whether the job would fit at this time without any reservation: never less so later."""
        _release_until(then, departures, at)
        fits = find_with_merges(job, options, then) is not None
        then.rollback(0)
        return fits


def _restore(marks: list[tuple[JobReservation, int, tuple[ReplicaPlacement, ...]]]) -> None:
    for reservation, mark, replicas in marks:
        reservation.ledger.rollback(mark)
        reservation.replicas = replicas


@contextmanager
def without_reserved(ledger: Ledger, reservations: list[JobReservation]) -> Iterator[None]:
    """The ledger without what is reserved. Changes made inside the block are rolled back."""
    mark = ledger.mark()
    for reservation in reservations:
        by_node = Counter(replica.node for replica in reservation.replicas)
        for key, replicas in by_node.items():
            node, then = ledger.nodes[key], reservation.ledger.nodes[key]
            cpu = then.cpu_free_milli - replicas * reservation.job.cpu_milli
            memory = then.memory_free_mib - replicas * reservation.job.memory_mib
            disk = then.disk_free_mib - replicas * reservation.job.disk_mib
            less = (max(0, node.cpu_free_milli - cpu), max(0, node.memory_free_mib - memory))
            ledger.reserve_host(node, *less, max(0, node.disk_free_mib - disk))
        for replica in reservation.replicas:
            for device in replica.devices:
                _block(ledger, device, reservation.job)
    try:
        yield
    finally:
        ledger.rollback(mark)


def _block(ledger: Ledger, place: DevicePlacement, job: WaitingJob) -> None:
    """Keep other jobs off this place; if it is partly taken, off the whole GPU."""
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
    present = [*gpu.slices.values(), *gpu.deleted_slices.values()]
    if place.kind is not SliceKind.MIG:
        return not present
    end = place.start + place.size
    is_apart = all(s.start >= end or s.start + s.size <= place.start for s in present)
    return gpu.may_carve() and is_apart


def find_with_merges(
    job: WaitingJob, options: list[DeviceOption], ledger: Ledger
) -> GangPlacement | None:
    """`find_placement` over all options, cheapest first; if none fits, also where idle slices would
    be merged."""
    for merging in (False, True) if ledger.has_idle else (False,):
        for option in options:
            if placement := find_placement(job, option, ledger, merging=merging):
                return placement
    return None


def _release_until(ledger: Ledger, departures: Departures, at: int) -> None:
    for leaves_at, allocated in departures:
        if leaves_at > at:
            return
        ledger.release(allocated.job, allocated.replicas)


def _first_by_count(
    times: list[int],
    departures: Departures,
    job: WaitingJob,
    options: list[DeviceOption],
    ledger: Ledger,
) -> int:
    """Index of the first time at which the free GPUs are enough in number."""
    counts, released = FreeGpuCounts(ledger), 0
    for index, at in enumerate(times):
        while released < len(departures) and departures[released][0] <= at:
            counts.release(departures[released][1].replicas)
            released += 1
        if counts.may_fit(job, options):
            return index
    return len(times)


def _block_places(ledger: Ledger, job: WaitingJob, replicas: Iterable[ReplicaPlacement]) -> None:
    for replica in replicas:
        ledger.reserve_host(ledger.nodes[replica.node], job.cpu_milli, job.memory_mib, job.disk_mib)
        for device in replica.devices:
            _block(ledger, device, job)


def _delete_idle(ledger: Ledger, placement: GangPlacement) -> None:
    for gpu, slices in placement.merges.items():
        space = ledger.gpus[gpu]
        ledger.delete_idle(space, [k for k in slices if k in space.slices and space.is_idle(k)])


def reserve_placement(ledger: Ledger, job: WaitingJob, placement: GangPlacement) -> None:
    """Take places that are known to be free, and count them on every account of the job's owner."""
    _delete_idle(ledger, placement)
    for replica in placement.replicas:
        ledger.reserve_host(ledger.nodes[replica.node], job.cpu_milli, job.memory_mib, job.disk_mib)
        for device in replica.devices:
            ledger.reserve_device(device, job)
    replicas = placement.replicas
    units = sum(device.units for replica in replicas for device in replica.devices)
    model = next(ledger.gpus[d.gpu].board.key for replica in replicas for d in replica.devices)
    ledger.charge(job.project, job.user, units, model, remaining_seconds(job))
