"""The order in which the placements of a plan are committed: owners in turn."""

from collections import Counter
from collections.abc import Iterable

from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.snapshot import PRIORITY_RANK, WaitingJob


def owners_in_turn(
    placements: Iterable[JobPlacement], jobs: Iterable[WaitingJob]
) -> tuple[JobPlacement, ...]:
    """The placements by priority band; within a band the first one of each owner, then the second
    one of each, and so on, otherwise as the plan has them.

    They fit together, so their order decides only which of them are left when the time for the
    commit is up. In the order of the plan, these could be the same ones in each pass: the one job
    of a user that stands behind some hundred jobs of a burst.

    `jobs`: those of the snapshot, with every job that is placed.
    """
    by_id = {job.id: job for job in jobs}
    turns: Counter[tuple[str, str, int]] = Counter()
    keyed = []
    for placement in placements:
        job = by_id[placement.job]
        band = PRIORITY_RANK[job.priority]
        owner = (job.project, job.user, band)
        turns[owner] += 1
        keyed.append(((band, turns[owner]), placement))
    return tuple(placement for _, placement in sorted(keyed, key=lambda each: each[0]))
