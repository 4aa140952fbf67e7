"""Which running jobs stop for a job that does not fit: as few as possible, latest rank first.

Only preemptible jobs past their protected time are stopped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.policy import Policy, PreemptionMode, QuotaPreemption
from scheduler.core.model.snapshot import PRIORITY_RANK, WaitingJob
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.search import GangPlacement
from scheduler.core.queue.gpu_counts import FreeGpuCounts
from scheduler.core.queue.order import Rank
from scheduler.core.queue.reservation import find_with_merges
from scheduler.core.queue.running import PreemptibleJob, RunningJobs

OptionsOf = Callable[[WaitingJob], list[DeviceOption]]


@dataclass(slots=True)
class PreemptionChoice:
    """A placement that the ledger holds for a job, and the jobs that have to stop for it first."""

    placement: GangPlacement
    stops: list[PreemptibleJob]


class PreemptionCandidates:
    """The running jobs that this pass may still stop or move, latest rank first."""

    def __init__(self, policy: Policy, running: RunningJobs) -> None:
        self._policy = policy
        self._stoppable = _last_first(running.may_stop)
        self._movable = _last_first(running.may_move)
        self.stopping = sorted(running.stopping, key=lambda each: each.run.job.id)
        """Jobs that stop already and whose devices no job of this pass has claimed yet."""
        self._by_project: dict[str, list[PreemptibleJob]] = {}
        self._unprotected = {each.run.job.id for each in self._stoppable}

    def for_job(self, job: WaitingJob, rank: Rank) -> list[PreemptibleJob]:
        """Jobs that may stop for this one: of a later rank, or by priority of a lower band."""
        if self._policy.preemption is PreemptionMode.ORDER:
            return [each for each in self._stoppable if each.rank > rank]
        band = PRIORITY_RANK[job.priority]
        return [each for each in self._stoppable if each.rank[0] > band]

    def within_quota(self, job: WaitingJob) -> list[PreemptibleJob]:
        """Jobs of a lower band that may stop so that this one has quota: of its owner, also within
        their protected time, as one owner's jobs need no protection from each other; and, if the
        policy says so, of others in its project. First those that stop already."""
        scope, project = self._policy.quota_preemption, job.project
        if self._policy.preemption is PreemptionMode.OFF or scope is QuotaPreemption.OFF:
            return []
        own = self._in_project(project)
        if not own:
            return []
        band = PRIORITY_RANK[job.priority]
        lower = [each for each in own if each.rank[0] > band]
        found = [each for each in lower if each.run.job.user == job.user]
        if scope is QuotaPreemption.PROJECT:
            others = [each for each in lower if each.run.job.user != job.user]
            found += [each for each in others if each.run.job.id in self._unprotected]
        return found

    def _in_project(self, project: str) -> list[PreemptibleJob]:
        """Those that stop already, and those that may, of one project: looked up for every job that
        finds a quota full."""
        if not self._by_project:
            for each in (*self.stopping, *self._movable):
                self._by_project.setdefault(each.run.job.project, []).append(each)
        return self._by_project.get(project, [])

    def movers(
        self,
        job: WaitingJob,
        size: Callable[[WaitingJob], float],
        excluding: Sequence[PreemptibleJob],
    ) -> list[PreemptibleJob]:
        """Smaller jobs that may restart elsewhere at once, except those that stop for `job`.
        Protected jobs may move too: a move costs little of their run."""
        if not self._policy.moves or self._policy.preemption is not PreemptionMode.ORDER:
            return []
        max_size, stop = size(job), {each.run.job.id for each in excluding}
        return [
            each
            for each in self._movable
            if size(each.run.job) < max_size and each.run.job.id not in stop
        ]

    def mark_stopping(self, stops: Sequence[PreemptibleJob]) -> None:
        """These jobs stop for a job of this pass; no other job may choose them."""
        ids = {each.run.job.id for each in stops}
        self._stoppable = [each for each in self._stoppable if each.run.job.id not in ids]
        self._movable = [each for each in self._movable if each.run.job.id not in ids]
        self.stopping = [each for each in self.stopping if each.run.job.id not in ids]
        self._by_project.clear()


def _last_first(jobs: Sequence[PreemptibleJob]) -> list[PreemptibleJob]:
    return sorted(jobs, key=lambda j: (j.rank, j.run.started_at, j.run.job.id))[::-1]


def enough_by_gpu_count(
    job: WaitingJob,
    options: list[DeviceOption],
    ledger: Ledger,
    candidates: Sequence[PreemptibleJob],
) -> Sequence[PreemptibleJob]:
    """The shortest prefix of `candidates` that frees as many GPUs as the job needs, wherever they
    are; all of them if even that is too few."""
    counts = FreeGpuCounts(ledger)
    for number, candidate in enumerate(candidates):
        if counts.has_enough(job, options):
            return candidates[:number]
        counts.release(candidate.run.replicas)
    return candidates


def make_room(
    job: WaitingJob,
    options: list[DeviceOption],
    ledger: Ledger,
    candidates: Sequence[PreemptibleJob],
) -> PreemptionChoice | None:
    """A placement for `job` if the fewest of `candidates` stop, earlier ones before later ones. The
    ledger then holds it without them. None: the ledger is as it was."""
    mark = ledger.mark()

    def find_without(stops: Sequence[PreemptibleJob]) -> GangPlacement | None:
        ledger.rollback(mark)
        release_jobs(ledger, stops)
        return find_with_merges(job, options, ledger)

    if not candidates or not _counts_without(ledger, candidates).may_fit(job, options):
        return None
    if find_without(candidates) is None:
        ledger.rollback(mark)
        return None
    # Binary search for the shortest prefix: none was tried before; all are enough.
    low, high = 0, len(candidates)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if find_without(candidates[:middle]) else (middle, high)
    placement = find_without(candidates[:high])
    stops = on_nodes_of(candidates[:high], [placement] if placement else [])
    stops = fewest_jobs(stops, lambda fewer: find_without(fewer) is not None)
    placement = find_without(stops)
    return PreemptionChoice(placement, stops) if placement else None


def make_room_by_moving(
    job: WaitingJob,
    options: list[DeviceOption],
    ledger: Ledger,
    candidates: Sequence[PreemptibleJob],
    movers: Sequence[PreemptibleJob],
    options_of: OptionsOf,
    max_moves: int,
) -> tuple[PreemptionChoice, list[PreemptibleJob]] | None:
    """As `make_room`, where up to `max_moves` of `movers` also restart elsewhere at once: the
    choice, and the jobs that move. The ledger then holds the job; a later pass places what moved.
    """
    # A moved job takes as much elsewhere: only stops make more room in all.
    if not _counts_without(ledger, candidates).has_enough(job, options):
        return None
    mark = ledger.mark()

    def place_all(
        stops: Sequence[PreemptibleJob], moved: Sequence[PreemptibleJob]
    ) -> list[GangPlacement] | None:
        """Placements of the job and of every moved one, or None if one of them finds none."""
        ledger.rollback(mark)
        release_jobs(ledger, [*stops, *moved])
        places = [find_with_merges(job, options, ledger)]
        if places[0] is not None:
            places += [
                find_with_merges(each.run.job, options_of(each.run.job), ledger)
                for each in _largest_first(moved)
            ]
        return None if None in places else [place for place in places if place is not None]

    moved: list[PreemptibleJob] = []
    for on_node in _by_node(ledger, candidates, movers):
        moved += [each for each in on_node if each not in moved]
        ledger.rollback(mark)
        release_jobs(ledger, [*candidates, *moved])
        if find_with_merges(job, options, ledger) is not None:
            break
    else:
        ledger.rollback(mark)
        return None
    moved = _largest_first(moved)
    ledger.rollback(mark)
    release_jobs(ledger, [*candidates, *moved])
    first = find_with_merges(job, options, ledger)
    needed = on_nodes_of(moved, [first]) if first else moved

    def fits_without(fewer: Sequence[PreemptibleJob]) -> bool:
        ledger.rollback(mark)
        release_jobs(ledger, [*candidates, *fewer])
        return find_with_merges(job, options, ledger) is not None

    needed = fewest_jobs(needed, fits_without)
    placements = place_all(candidates, needed) if len(needed) <= max_moves else None
    if placements is None:
        ledger.rollback(mark)
        return None
    stops = on_nodes_of(candidates, placements)
    stops = fewest_jobs(stops, lambda fewer: place_all(fewer, needed) is not None)
    placements = place_all(stops, needed)
    return (PreemptionChoice(placements[0], stops), needed) if placements else None


def _counts_without(ledger: Ledger, stops: Sequence[PreemptibleJob]) -> FreeGpuCounts:
    counts = FreeGpuCounts(ledger)
    for each in stops:
        counts.release(each.run.replicas)
    return counts


def fewest_jobs(
    jobs: list[PreemptibleJob], is_enough: Callable[[list[PreemptibleJob]], bool]
) -> list[PreemptibleJob]:
    """The jobs without those that are not needed, tried from the last one on."""
    for job in jobs[::-1]:
        others = [other for other in jobs if other is not job]
        if is_enough(others):
            jobs = others
    return jobs


def on_nodes_of(
    jobs: Sequence[PreemptibleJob], placements: Sequence[GangPlacement]
) -> list[PreemptibleJob]:
    """The jobs that run on a node of these placements."""
    nodes = {replica.node for placement in placements for replica in placement.replicas}
    return [job for job in jobs if any(r.node in nodes for r in job.run.replicas)]


def _by_node(
    ledger: Ledger, candidates: Sequence[PreemptibleJob], movers: Sequence[PreemptibleJob]
) -> list[list[PreemptibleJob]]:
    """The movers by node; first the nodes with the most empty GPUs once the candidates are gone."""
    mark = ledger.mark()
    release_jobs(ledger, candidates)
    empty = {key: sum(gpu.is_empty for gpu in node.gpus) for key, node in ledger.nodes.items()}
    ledger.rollback(mark)
    nodes: dict[str, list[PreemptibleJob]] = {}
    for mover in movers:
        for key in dict.fromkeys(replica.node for replica in mover.run.replicas):
            nodes.setdefault(key, []).append(mover)
    order = sorted(nodes, key=lambda n: (-empty.get(n, 0), ledger.nodes[n].view.name, n))
    return [nodes[key] for key in order if key in ledger.nodes]


def _largest_first(jobs: Sequence[PreemptibleJob]) -> list[PreemptibleJob]:
    return sorted(jobs, key=lambda j: (-_units(j), j.rank, j.run.job.id))


def _units(job: PreemptibleJob) -> int:
    return sum(d.units for replica in job.run.replicas for d in replica.devices)


def release_jobs(ledger: Ledger, jobs: Sequence[PreemptibleJob]) -> None:
    for job in jobs:
        ledger.release(job.run.job, job.run.replicas)
