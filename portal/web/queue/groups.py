"""Jobs of other projects that follow each other in the queue, as one row: ten rows without a name
say no more than their number."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from agents.contract.units import as_gpus
from portal.planning.order_factors import OrderFactors
from portal.web.queue.rows import QueueRow
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
    rows: Sequence[QueueRow], factors: Mapping[int, OrderFactors]
) -> list[QueueRow | QueueGroup]:
    """The rows in their order, each run of nameless ones as a group."""
    found: list[QueueRow | QueueGroup] = []
    # Those with a position and those without one are not one group: it would show too few.
    runs = groupby(rows, key=lambda row: (not row.shows_names, row.job.position is None))
    for (is_nameless, _has_none), run in runs:
        neighbours = list(run)
        if is_nameless and len(neighbours) >= MIN_GROUP:
            found.append(_group(neighbours, factors))
        else:
            found += neighbours
    return found


def _group(rows: Sequence[QueueRow], factors: Mapping[int, OrderFactors]) -> QueueGroup:
    positions = [row.job.position for row in rows if row.job.position]
    units = sum(factors[row.job.pk].units for row in rows if row.job.pk in factors)
    return QueueGroup(
        count=len(rows),
        first=min(positions, default=None),
        last=max(positions, default=None),
        gpus=as_gpus(units),
        reasons=_reasons(row.badge for row in rows),
        waited=rows[0].waited,
    )


def _reasons(badges: Iterable[Badge]) -> tuple[tuple[Badge, int], ...]:
    return tuple(Counter(badges).most_common(MAX_REASONS))
