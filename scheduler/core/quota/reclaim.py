"""Whose running work stops when a project wants back what others borrowed of its quota.

Pure: the planner says what is enough, here is said who comes first, and that nobody stops in vain.
Who is stopped has the grace of its job, and is queued again (`PreemptCause.RECLAIM`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from math import comb

from scheduler.core.model.snapshot import PRIORITY_RANK, RunningJob, WaitingJob
from scheduler.core.quota.accounts import QuotaAccounts
from scheduler.core.quota.holders import units_by_board

IsEnough = Callable[[Sequence[RunningJob]], bool]
# The smallest set is looked for among so many: all sets of 6 candidates, pairs of 10.
MAX_SETS_TRIED = 64


def reclaim_candidates(
    running: Iterable[RunningJob],
    accounts: QuotaAccounts,
    job: WaitingJob,
    units: int,
    board: str,
    boards: Mapping[str, str],
) -> tuple[RunningJob, ...]:
    """The running jobs that may stop so that `job` gets `units` of `board`, in their order.

    Only where its project stays within its nominal quota with them. They are preemptible work on
    that board of projects above theirs, and only as much as it takes to bring each project back to
    it: of the project that is most above, the lowest priority, then what started last. `boards`
    is a board's key by the id of the GPU, as `holders.board_of_gpus` gives it.
    """
    if not accounts.is_within_nominal(job.project, units, board):
        return ()
    above: dict[str, int] = {}
    theirs: dict[str, list[tuple[RunningJob, int]]] = defaultdict(list)
    for run in running:
        project = run.job.project
        if project == job.project or run.stopping or not run.job.preemptible:
            continue
        if project not in above:
            above[project] = accounts.borrowed(project, board)
        held = units_by_board(run, boards)[board] if above[project] else 0
        if held:
            theirs[project].append((run, held))
    for runs in theirs.values():
        runs.sort(key=_turn)
    return tuple(_by_excess(theirs, above))


def smallest_victim_set(
    candidates: Sequence[RunningJob], is_enough: IsEnough
) -> tuple[RunningJob, ...]:
    """The smallest set of candidates that is enough: the fewest jobs, of equally many those that
    hold least, then the first ones. Where too many sets would have to be tried (`MOST_TRIED`), the
    first ones without those that need not go: no proper subset of them would do. () where not even
    all are enough.

    `enough`: whether it would do if just these stopped; more of them never hinder.
    """
    if not candidates or not is_enough(candidates):
        return ()
    low, high = 0, len(candidates)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(candidates[:middle]) else (middle + 1, high)
    chosen = list(candidates[:high])
    for each in chosen[::-1]:
        others = [run for run in chosen if run is not each]
        if is_enough(others):
            chosen = others
    return _smallest(candidates, tuple(chosen), is_enough)


def _smallest(
    candidates: Sequence[RunningJob], chosen: tuple[RunningJob, ...], enough: IsEnough
) -> tuple[RunningJob, ...]:
    """A smaller set than `chosen` that is enough, or `chosen`."""
    sizes = [_units(run) for run in candidates]
    own = tuple(index for index, run in enumerate(candidates) if run in chosen)
    best, left = (sum(sizes[i] for i in own), own), MAX_SETS_TRIED
    for count in range(1, len(own) + 1):
        left -= comb(len(candidates), count)
        if left < 0:
            return chosen
        sets = combinations(range(len(candidates)), count)
        for some in sorted((sum(sizes[i] for i in each), each) for each in sets):
            if count == len(own) and some >= best:
                return chosen
            runs = tuple(candidates[i] for i in some[1])
            if enough(runs):
                return runs
    return chosen


def _units(run: RunningJob) -> int:
    return sum(device.units for replica in run.replicas for device in replica.devices)


def _by_excess(
    theirs: dict[str, list[tuple[RunningJob, int]]], above: dict[str, int]
) -> Iterable[RunningJob]:
    """Job by job from whoever is most above its quota then. `theirs`: the next one is last."""
    while open_ := [p for p, runs in theirs.items() if runs and above[p] > 0]:
        project = min(open_, key=lambda p: (-above[p], p))
        run, held = theirs[project].pop()
        above[project] -= held
        yield run


def _turn(held: tuple[RunningJob, int]) -> tuple[int, int, int, str]:
    """The last one goes first: of the lowest priority what started last."""
    run = held[0]
    return (PRIORITY_RANK[run.job.priority], run.started_at, len(run.job.id), run.job.id)
