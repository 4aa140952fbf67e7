"""Jobs of other projects that follow each other in the queue, as one row: ten rows without a name
say no more than their number."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from agents.contract.units import as_gpus
from portal.jobs.models import Job
from portal.planning.order_factors import OrderFactors
from portal.web.queue.rows import QueueRow, QueueViewer, row_badge, row_waited
from portal.web.wording.labels import Badge

# Fewer neighbours are listed one by one.
MIN_GROUP = 3
MAX_REASONS = 3


@dataclass(frozen=True, slots=True)
class QueueGroup:
    """Neighbouring jobs whose names the reader may not see."""

    count: int
    first: int | None
    """Position of the first of them; None where none has one."""
    last: int | None
    gpus: str
    """What all of them request."""
    reasons: tuple[tuple[Badge, int], ...]
    """The commonest, each with its number."""
    waited: str
    """The first of them."""

    @property
    def is_group(self) -> bool:
        return True


def grouped(
    jobs: Iterable[Job],
    viewer: QueueViewer,
    factors: Mapping[int, OrderFactors],
    row_of: Callable[[Job], QueueRow],
) -> list[QueueRow | QueueGroup]:
    """The rows of the jobs in their order, each run of nameless ones as a group."""
    found: list[QueueRow | QueueGroup] = []
    # Those with a position and those without one are not one group: it would show too few.
    runs = groupby(jobs, key=lambda job: (viewer.may_name(job), job.position is None))
    for (has_names, _has_none), run in runs:
        neighbours = list(run)
        if not has_names and len(neighbours) >= MIN_GROUP:
            found.append(_group(neighbours, factors))
        else:
            found += map(row_of, neighbours)
    return found


def _group(jobs: Sequence[Job], factors: Mapping[int, OrderFactors]) -> QueueGroup:
    positions = [job.position for job in jobs if job.position]
    units = sum(factors[job.pk].units for job in jobs if job.pk in factors)
    return QueueGroup(
        count=len(jobs),
        first=min(positions, default=None),
        last=max(positions, default=None),
        gpus=as_gpus(units),
        reasons=_reasons(map(row_badge, jobs)),
        waited=row_waited(jobs[0]),
    )


def _reasons(badges: Iterable[Badge]) -> tuple[tuple[Badge, int], ...]:
    return tuple(Counter(badges).most_common(MAX_REASONS))
