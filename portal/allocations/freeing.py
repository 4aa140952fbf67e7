"""How many GPUs of each model running jobs free until when, at the latest: by their time limits."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.db.models import F, Q, Sum, Value
from django.db.models.functions import Coalesce, NullIf

from agents.contract.boards import known_boards
from portal.accounts.models import User
from portal.allocations.models import Allocation
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class FreeingUnits:
    """GPU units of one model, by span of time."""

    model: str
    total: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    """What the reader's own jobs free of it."""


def units_freeing(user: User, ends: Sequence[datetime]) -> list[FreeingUnits]:
    """The spans lie before the first of `ends`, and between each two that follow. The model that
    frees most comes first. One query."""
    at = F("replica__attempt__job__deadline_at")
    spans = [Q(ends_at__lte=ends[0])]
    spans += [Q(ends_at__gt=a, ends_at__lte=b) for a, b in pairwise(ends)]
    sums = {f"all_{n}": Sum("units", filter=span) for n, span in enumerate(spans)}
    sums |= {f"own_{n}": Sum("units", filter=span & Q(user=user)) for n, span in enumerate(spans)}
    rows = (
        Allocation.objects.live()
        .filter(replica__attempt__job__status=JobStatus.RUNNING)
        .annotate(ends_at=at, key=Coalesce(NullIf("board", Value("")), "slice__gpu__board"))
        .filter(ends_at__lte=ends[-1])
        .order_by()
        .values("key")
        .annotate(**sums)
    )
    return _by_model(rows, len(spans))


def _by_model(rows: Iterable[Mapping[str, Any]], count: int) -> list[FreeingUnits]:
    """Boards of one model, such as H100 with 80 and with 94 GB, are one row."""
    found: dict[str, FreeingUnits] = defaultdict(lambda: FreeingUnits("", [0] * count, [0] * count))
    for row in rows:
        board = known_boards().get(str(row["key"]))
        of_model = found[board.model if board else str(row["key"])]
        for n in range(count):
            of_model.total[n] += row[f"all_{n}"] or 0
            of_model.own[n] += row[f"own_{n}"] or 0
    named = [FreeingUnits(name, units.total, units.own) for name, units in found.items()]
    return sorted(named, key=lambda units: (-sum(units.total), units.model))
