"""Which running jobs stop when a project reclaims quota that others have borrowed.

The planner decides whether a set of stopped jobs is enough. This module orders the candidates and
finds the smallest set, so that no job stops in vain. A stopped job has its grace period and is
queued again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from math import comb

from scheduler.core.model.snapshot import PRIORITY_RANK, RunningJob, WaitingJob
from scheduler.core.quota.accounts import QuotaAccounts
from scheduler.core.quota.holders import units_by_board

IsEnough = Callable[[Sequence[RunningJob]], bool]
# Sets tried to find the smallest: enough for all sets of 6 candidates or pairs of 10.
MAX_SETS_TRIED = 64


def reclaim_candidates(
    running: Iterable[RunningJob],
    accounts: QuotaAccounts,
    job: WaitingJob,
    units: int,
    board: str,
    boards: Mapping[str, str],
) -> tuple[RunningJob, ...]:
    """The running jobs that may stop so that `job` gets `units` of `board`, in stopping order.

    There are none unless the job's project stays within its nominal quota. They are preemptible
    jobs on that board, of projects above their quota, and only as many as bring each project back
    to it: from the project that is furthest above, the lowest priority first, then what started
    last. `boards`: keys by GPU id, as `holders.board_of_gpus` returns them.
    """
    if not accounts.is_within_nominal(job.project, units, board):
        return ()
    excess: dict[str, int] = {}
    runs_by_project: dict[str, list[tuple[RunningJob, int]]] = defaultdict(list)
    for run in running:
        project = run.job.project
        if project == job.project or run.stopping or not run.job.preemptible:
            continue
        if project not in excess:
            excess[project] = accounts.borrowed(project, board)
        run_units = units_by_board(run, boards)[board] if excess[project] else 0
        if run_units:
            runs_by_project[project].append((run, run_units))
    for runs in runs_by_project.values():
        runs.sort(key=_turn)
    return tuple(_by_excess(runs_by_project, excess))


def smallest_victim_set(
    candidates: Sequence[RunningJob], is_enough: IsEnough
) -> tuple[RunningJob, ...]:
    """The smallest set of candidates that is enough: the fewest jobs, then the fewest units, then
    the first candidates. () if not even all of them are enough.

    With too many sets to try (MAX_SETS_TRIED), it is the first candidates without those that need
    not stop, so that no proper subset is enough.

    `is_enough`: whether stopping just these is enough. Stopping more never hinders.
    """
    if not candidates or not is_enough(candidates):
        return ()
    low, high = 0, len(candidates)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(candidates[:middle]) else (middle + 1, high)
    chosen = list(candidates[:high])
    for each in chosen[::-1]:
        remaining = [run for run in chosen if run is not each]
        if is_enough(remaining):
            chosen = remaining
    return _smallest(candidates, tuple(chosen), is_enough)


def _smallest(
    candidates: Sequence[RunningJob], chosen: tuple[RunningJob, ...], enough: IsEnough
) -> tuple[RunningJob, ...]:
    """A smaller set than `chosen` that is enough, or `chosen`."""
    sizes = [_units(run) for run in candidates]
    chosen_indexes = tuple(index for index, run in enumerate(candidates) if run in chosen)
    best, left = (sum(sizes[i] for i in chosen_indexes), chosen_indexes), MAX_SETS_TRIED
    for count in range(1, len(chosen_indexes) + 1):
        left -= comb(len(candidates), count)
        if left < 0:
            return chosen
        sets = combinations(range(len(candidates)), count)
        for candidate_set in sorted((sum(sizes[i] for i in each), each) for each in sets):
            if count == len(chosen_indexes) and candidate_set >= best:
                return chosen
            runs = tuple(candidates[i] for i in candidate_set[1])
            if enough(runs):
                return runs
    return chosen


def _units(run: RunningJob) -> int:
    return sum(device.units for replica in run.replicas for device in replica.devices)


def _by_excess(
    runs_by_project: dict[str, list[tuple[RunningJob, int]]], excess: dict[str, int]
) -> Iterable[RunningJob]:
    """Job by job from the project that is then furthest above its quota; of each project, the last
    job in its list first."""
    while projects := [p for p, runs in runs_by_project.items() if runs and excess[p] > 0]:
        project = min(projects, key=lambda p: (-excess[p], p))
        run, units = runs_by_project[project].pop()
        excess[project] -= units
        yield run


def _turn(entry: tuple[RunningJob, int]) -> tuple[int, int, int, str]:
    """Sort key; the last job stops first: the lowest priority, then what started last."""
    run = entry[0]
    return (PRIORITY_RANK[run.job.priority], run.started_at, len(run.job.id), run.job.id)
