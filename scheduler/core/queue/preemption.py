"""Which running work stops for a job that does not fit: few, and the latest in the order first.

Only jobs that say they may be stopped, and that had their protected time, are asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.policy import Policy, PreemptionMode
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
    """Places that the ledger holds for a job, and who has to stop before it can have them."""

    placement: GangPlacement
    stops: list[PreemptibleJob]


class PreemptionCandidates:
    """The running jobs that may be stopped in this pass, the latest in the order first."""

    def __init__(self, policy: Policy, running: RunningJobs) -> None:
        self._policy = policy
        self._left = _last_first(running.may_stop)
        self._movable = _last_first(running.may_move)
        self.stopping = sorted(running.stopping, key=lambda v: v.run.job.id)

    def for_job(self, job: WaitingJob, rank: Rank) -> list[PreemptibleJob]:
        """Those whose turn comes after this job's; by priority only those of lower bands."""
        if self._policy.preemption is PreemptionMode.ORDER:
            return [v for v in self._left if v.rank > rank]
        band = PRIORITY_RANK[job.priority]
        return [v for v in self._left if v.rank[0] > band]

    def movers(
        self, job: WaitingJob, size: Callable[[WaitingJob], float], but: Sequence[PreemptibleJob]
    ) -> list[PreemptibleJob]:
        """Smaller jobs that go on elsewhere at once, all but those who stop for it. So do those in
        their protected time: a move costs them little of it."""
        if not self._policy.moves or self._policy.preemption is not PreemptionMode.ORDER:
            return []
        most, stop = size(job), {v.run.job.id for v in but}
        return [v for v in self._movable if size(v.run.job) < most and v.run.job.id not in stop]

    def mark_stopping(self, victims: Sequence[PreemptibleJob]) -> None:
        """They stop: nobody else may choose them, and who does not fit may count on them."""
        gone = {v.run.job.id for v in victims}
        self._left = [v for v in self._left if v.run.job.id not in gone]
        self._movable = [v for v in self._movable if v.run.job.id not in gone]
        self.stopping = [v for v in self.stopping if v.run.job.id not in gone]


def _last_first(victims: Sequence[PreemptibleJob]) -> list[PreemptibleJob]:
    return sorted(victims, key=lambda v: (v.rank, v.run.started_at, v.run.job.id))[::-1]


def enough_by_gpu_count(
    job: WaitingJob, ways: list[DeviceOption], ledger: Ledger, candidates: Sequence[PreemptibleJob]
) -> Sequence[PreemptibleJob]:
    """The first of `candidates` whose GPUs are as many as the job needs, wherever they are; all
    where that is too few."""
    counts = FreeGpuCounts(ledger)
    for number, victim in enumerate(candidates):
        if counts.has_enough(job, ways):
            return candidates[:number]
        counts.release(victim.run.replicas)
    return candidates


def make_room(
    job: WaitingJob, ways: list[DeviceOption], ledger: Ledger, candidates: Sequence[PreemptibleJob]
) -> PreemptionChoice | None:
    """Places for `job` if the fewest of `candidates` go, the first ones rather than the last; the
    ledger then holds the job there without them. None: the ledger is as it was."""
    mark = ledger.mark()

    def attempt(victims: Sequence[PreemptibleJob]) -> GangPlacement | None:
        ledger.rollback(mark)
        _release(ledger, victims)
        return find_with_merges(job, ways, ledger)

    if not candidates or not _may_fit(job, ways, ledger, candidates):
        return None
    if attempt(candidates) is None:
        ledger.rollback(mark)
        return None
    low, high = 0, len(candidates)  # none was asked already; all are enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if attempt(candidates[:middle]) else (middle, high)
    found = attempt(candidates[:high])
    victims = on_nodes_of(candidates[:high], [found] if found else [])
    victims = _fewest(victims, lambda some: attempt(some) is not None)
    found = attempt(victims)
    return PreemptionChoice(found, victims) if found else None


def make_room_by_moving(
    job: WaitingJob,
    ways: list[DeviceOption],
    ledger: Ledger,
    candidates: Sequence[PreemptibleJob],
    movers: Sequence[PreemptibleJob],
    ways_of: OptionsOf,
    max_moves: int,
) -> tuple[PreemptionChoice, list[PreemptibleJob]] | None:
    """As `make_room`, where also up to `most` of `movers` go elsewhere at once. The ledger then
    holds the job; what moves finds its new place in a later pass. The second value: who moves."""
    if not _has_enough(job, ways, ledger, candidates):
        return None
    mark = ledger.mark()

    def attempt(
        victims: Sequence[PreemptibleJob], moved: Sequence[PreemptibleJob]
    ) -> list[GangPlacement] | None:
        ledger.rollback(mark)
        _release(ledger, [*victims, *moved])
        places = [find_with_merges(job, ways, ledger)]
        if places[0] is not None:
            big = sorted(moved, key=lambda v: (-_size(v), v.rank, v.run.job.id))
            places += [find_with_merges(v.run.job, ways_of(v.run.job), ledger) for v in big]
        return None if None in places else [found for found in places if found is not None]

    moved: list[PreemptibleJob] = []
    for on_node in _by_node(ledger, candidates, movers):
        moved += [v for v in on_node if v not in moved]
        ledger.rollback(mark)
        _release(ledger, [*candidates, *moved])
        if find_with_merges(job, ways, ledger) is not None:
            break
    else:
        ledger.rollback(mark)
        return None
    big_first = sorted(moved, key=lambda v: (-_size(v), v.rank, v.run.job.id))
    ledger.rollback(mark)
    _release(ledger, [*candidates, *moved])
    first = find_with_merges(job, ways, ledger)
    kept = on_nodes_of(big_first, [first]) if first else big_first

    def fits_without(some: Sequence[PreemptibleJob]) -> bool:
        ledger.rollback(mark)
        _release(ledger, [*candidates, *some])
        return find_with_merges(job, ways, ledger) is not None

    kept = _fewest(kept, fits_without)
    founds = attempt(candidates, kept) if len(kept) <= max_moves else None
    if founds is None:
        ledger.rollback(mark)
        return None
    victims = on_nodes_of(candidates, founds)
    victims = _fewest(victims, lambda some: attempt(some, kept) is not None)
    founds = attempt(victims, kept)
    return (PreemptionChoice(founds[0], victims), kept) if founds else None


def _may_fit(
    job: WaitingJob, ways: list[DeviceOption], ledger: Ledger, candidates: Sequence[PreemptibleJob]
) -> bool:
    return _counts_without(ledger, candidates).may_fit(job, ways)


def _has_enough(
    job: WaitingJob, ways: list[DeviceOption], ledger: Ledger, candidates: Sequence[PreemptibleJob]
) -> bool:
    """What moves takes as much elsewhere: only who stops makes more room in all."""
    return _counts_without(ledger, candidates).has_enough(job, ways)


def _counts_without(ledger: Ledger, victims: Sequence[PreemptibleJob]) -> FreeGpuCounts:
    counts = FreeGpuCounts(ledger)
    for victim in victims:
        counts.release(victim.run.replicas)
    return counts


def _fewest(
    victims: list[PreemptibleJob], enough: Callable[[list[PreemptibleJob]], bool]
) -> list[PreemptibleJob]:
    """Without those that need not go, asked from the last one on."""
    for victim in victims[::-1]:
        others = [v for v in victims if v is not victim]
        if enough(others):
            victims = others
    return victims


def on_nodes_of(
    victims: Sequence[PreemptibleJob], founds: Sequence[GangPlacement]
) -> list[PreemptibleJob]:
    """Those on nodes where something was found; the others are in nobody's way."""
    nodes = {replica.node for found in founds for replica in found.replicas}
    return [v for v in victims if any(r.node in nodes for r in v.run.replicas)]


def _by_node(
    ledger: Ledger, candidates: Sequence[PreemptibleJob], movers: Sequence[PreemptibleJob]
) -> list[list[PreemptibleJob]]:
    """The movers node by node, first where the least has to be moved."""
    mark = ledger.mark()
    _release(ledger, candidates)
    empty = {key: sum(g.is_empty for g in node.gpus) for key, node in ledger.nodes.items()}
    ledger.rollback(mark)
    nodes: dict[str, list[PreemptibleJob]] = {}
    for victim in movers:
        for key in dict.fromkeys(replica.node for replica in victim.run.replicas):
            nodes.setdefault(key, []).append(victim)
    order = sorted(nodes, key=lambda n: (-empty.get(n, 0), ledger.nodes[n].view.name, n))
    return [nodes[key] for key in order if key in ledger.nodes]


def _size(victim: PreemptibleJob) -> int:
    return sum(d.units for replica in victim.run.replicas for d in replica.devices)


def _release(ledger: Ledger, victims: Sequence[PreemptibleJob]) -> None:
    for victim in victims:
        ledger.release(victim.run.job, victim.run.replicas)
