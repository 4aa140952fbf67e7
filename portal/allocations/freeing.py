"""How many GPUs of each model running jobs free until when, at the latest: by their time limits."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, Q, Sum, Value
from django.db.models.functions import Coalesce, Greatest, NullIf

from agents.contract.boards import known_boards
from portal.accounts.models import User
from portal.allocations.models import Allocation
from portal.database.intervals import ThisSecond, epoch_seconds
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class FreeingUnits:
    """GPU units of one model, by span of time."""

    model: str
    total: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    """What the reader's own jobs free of it."""


def units_freeing(user: User, ends: Sequence[datetime]) -> list[FreeingUnits]:
    """`ends`: of spans of the same length; all that ends before the first one counts there. The
    model that frees most comes first. One query."""
    seconds = epoch_seconds(ends[1]) - epoch_seconds(ends[0])
    start = epoch_seconds(ends[0]) - seconds
    span = (ThisSecond(F("ends_at")) - Value(start + 1)) / Value(seconds)
    rows = (
        Allocation.objects.live()
        .filter(replica__attempt__job__status=JobStatus.RUNNING)
        .annotate(ends_at=F("replica__attempt__job__deadline_at"))
        .filter(ends_at__lte=ends[-1])
        .annotate(
            key=Coalesce(NullIf("board", Value("")), "slice__gpu__board"),
            span=Greatest(span, Value(0)),
        )
        .order_by()
        .values("key", "span")
        .annotate(total=Sum("units"), own=Sum("units", filter=Q(user=user)))
    )
    return _by_model(rows, len(ends))


def _by_model(rows: Iterable[Mapping[str, Any]], count: int) -> list[FreeingUnits]:
    """Boards of one model, such as H100 with 80 and with 94 GB, are one row."""
    found: dict[str, FreeingUnits] = defaultdict(lambda: FreeingUnits("", [0] * count, [0] * count))
    for row in rows:
        board = known_boards().get(str(row["key"]))
        of_model = found[board.model if board else str(row["key"])]
        of_model.total[row["span"]] += row["total"]
        of_model.own[row["span"]] += row["own"] or 0
    named = [FreeingUnits(name, units.total, units.own) for name, units in found.items()]
    return sorted(named, key=lambda units: (-sum(units.total), units.model))
