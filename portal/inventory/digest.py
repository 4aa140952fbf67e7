"""The whole cluster in few numbers a node, for pages that count a thousand of them.

Four queries whatever the size, of plain columns: rows of whole GPUs are counted by the database,
and only GPUs that are carved or shared are looked at one by one. Who holds what is not in it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.models import (
    Aggregate,
    Case,
    Count,
    Exists,
    OuterRef,
    Q,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Concat

from agents.contract.boards import Board, boards
from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layouts
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Node, Slice
from portal.inventory.selectors import LIVE
from portal.jobs.models import Allocation
from scheduler.core.states import SLICE_LIVE, GpuHealth, NodeStatus, SliceStatus

LIVE_SLICES = [str(status) for status in SLICE_LIVE]
MAKING = (SliceStatus.PLANNED, SliceStatus.CREATING)


@dataclass(slots=True)
class OfBoard:
    """The GPUs of one board in a node. `empty`: healthy, and nothing is on them. `open`: healthy,
    and nothing on them is held. `made`: idle slices by profile; `fits`: what more can be carved,
    by profile, each on its own."""

    board: Board
    memory_mib: int
    gpus: int = 0
    out: int = 0
    empty: int = 0
    open: int = 0
    idle: int = 0
    made: Counter[str] = field(default_factory=Counter)
    fits: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class NodeDigest:
    """Nothing of a node that takes no work is counted as free, idle or fitting."""

    id: UUID
    name: str
    status: str
    schedulable: bool
    blocked: bool
    labels: list[str]
    share_clients: int
    boards: list[OfBoard] = field(default_factory=list)
    held_units: int = 0

    @property
    def takes_work(self) -> bool:
        return self.status == NodeStatus.ONLINE and self.schedulable and not self.blocked

    @property
    def gpus(self) -> int:
        return sum(of.gpus for of in self.boards)

    @property
    def out(self) -> int:
        return sum(of.out for of in self.boards)

    @property
    def free(self) -> int:
        return sum(of.empty for of in self.boards) if self.takes_work else 0

    @property
    def idle(self) -> int:
        return sum(of.idle for of in self.boards) if self.takes_work else 0

    @property
    def models(self) -> list[str]:
        return [of.board.model for of in self.boards]

    def has_room_for(self, profile: str) -> bool:
        """A slice of this profile is idle or can be carved."""
        return self.takes_work and any(of.made[profile] or of.fits[profile] for of in self.boards)

    def label(self, key: str) -> str:
        """ "train" of the label "pool=train"; empty where there is none."""
        head = f"{key}="
        return next((word[len(head) :] for word in self.labels if word.startswith(head)), "")


def cluster_digest(name: str = "") -> list[NodeDigest]:
    """Every node but retired ones, by name; or the one of this name."""
    found = {digest.id: digest for digest in map(_node, _node_rows(name))}
    only = next(iter(found), None) if name else None
    if name and not found:
        return []
    counted = _boards(found, only)
    for node, board, usable, healthy, text in _carved(only):
        if of := counted.get((node, board)):
            _count(of, usable, healthy, text)
    for of in counted.values():
        _count_empty(of)
    rows = Allocation.objects.filter(status__in=LIVE)
    held = (rows.filter(slice__gpu__node=only) if only else rows).values_list("slice__gpu__node")
    for node, units in held.annotate(units=Sum("units")).order_by():
        if node in found:
            found[node].held_units = units
    return list(found.values())


def _node_rows(name: str) -> Iterable[tuple[Any, ...]]:
    rows = Node.objects.exclude(status=NodeStatus.RETIRED).order_by("name")
    if name:
        rows = rows.filter(name=name)
    return rows.values_list(
        *("id", "name", "status", "schedulable", "facts__blocks", "labels"), "facts__share_clients"
    )


def _node(row: tuple[Any, ...]) -> NodeDigest:
    pk, name, status, schedulable, blocks, labels, clients = row
    return NodeDigest(pk, name, status, schedulable, bool(blocks), labels, clients or 0)


def _boards(nodes: dict[UUID, NodeDigest], only: UUID | None) -> dict[tuple[UUID, str], OfBoard]:
    """The GPUs counted by node and board."""
    live = Slice.objects.filter(gpu=OuterRef("pk"), status__in=LIVE_SLICES)
    healthy = Q(health=GpuHealth.OK)
    rows = (
        (Gpu.objects.filter(node=only) if only else Gpu.objects)
        .order_by("node_id", "board")
        .annotate(used=Exists(live))
        .values_list("node_id", "board", "product_name", "memory_mib", "profiles")
        .annotate(
            gpus=Count("id"),
            out=Count("id", filter=~healthy),
            empty=Count("id", filter=healthy & Q(busy="", used=False)),
        )
    )
    found: dict[tuple[UUID, str], OfBoard] = {}
    known: dict[str, Board] = {}
    for node, key, product, memory, profiles, gpus, out, empty in rows:
        if node not in nodes:
            continue
        told = f"{key} {memory} {profiles}"
        if told not in known:
            row = Gpu(board=key, product_name=product, memory_mib=memory, profiles=profiles)
            known[told] = board_of(row)
        if (node, key) not in found:
            found[node, key] = OfBoard(known[told], memory)
            nodes[node].boards.append(found[node, key])
        of = found[node, key]
        of.gpus, of.out, of.empty = of.gpus + gpus, of.out + out, of.empty + empty
    return found


class _Joined(Aggregate):
    """Texts of many rows as one, in no order."""

    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, ';')"
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return super().as_sql(compiler, connection, function="GROUP_CONCAT", **context)


@dataclass(frozen=True, slots=True)
class _OnGpu:
    """What the slices of one GPU come to. `is_open`: none is held. `fits` is empty where it is
    shared, or an idle slice covers it."""

    is_open: bool
    idle: int
    made: tuple[str, ...]
    fits: Mapping[str, int]


def _carved(only: UUID | None) -> Iterable[tuple[UUID, str, bool, bool, str]]:
    """GPUs with slices on them that are not one held whole: node, board, whether it is healthy and
    not busy, whether it is healthy, and its slices as a text."""
    held = Exists(Allocation.objects.filter(slice=OuterRef("pk"), status__in=LIVE))
    rows = Slice.objects.filter(status__in=LIVE_SLICES).annotate(held=held)
    rows = rows.exclude(kind=SliceKind.GPU, held=True).order_by()
    rows = rows.filter(gpu__node=only) if only else rows
    told = Concat(
        *("kind", Value(","), "profile", Value(","), Cast("start", TextField()), Value(",")),
        *(Cast("size", TextField()), Value(","), "status", Value(",")),
        Case(When(held=True, then=Value("h")), default=Value("")),
        output_field=TextField(),
    )
    columns = ("gpu__node_id", "gpu__board", "gpu__health", "gpu__busy", "told")
    found = rows.values("gpu_id").annotate(told=_Joined(told)).values_list(*columns)
    for node, board, health, busy, text in found:
        healthy = health == GpuHealth.OK
        yield node, board, healthy and not busy, healthy, text


@lru_cache(16_384)
def _on_gpu(key: str, text: str) -> _OnGpu:
    """Of a known board; the same few layouts come again and again."""
    return _read(boards()[key], text)


def _read(board: Board, text: str) -> _OnGpu:
    places, made, idle, open_, divided = [], [], 0, True, True
    for piece in text.split(";"):
        kind, profile, start, size, status, held = piece.split(",")
        is_making = status in MAKING and profile
        if held:
            open_ = False
        else:
            made.append(profile)
            idle += not is_making and status != SliceStatus.DELETING
        divided = divided and bool(profile) and kind != SliceKind.MPS
        places.append(Placement(int(start), int(size), profile))
    most = layouts(board).beside(places).most if divided else {}
    return _OnGpu(open_, idle, tuple(made) if divided else (), most)


def _count(of: OfBoard, usable: bool, healthy: bool, text: str) -> None:
    known = boards().get(of.board.key) is of.board
    on = _on_gpu(of.board.key, text) if known else _read(of.board, text)
    of.idle += on.idle * healthy
    if usable:
        of.open += on.is_open
        of.made.update(on.made)
        of.fits.update(on.fits)


def _count_empty(of: OfBoard) -> None:
    of.open += of.empty
    if of.empty and of.board.profiles:
        most = layouts(of.board).beside(()).most
        of.fits.update({name: number * of.empty for name, number in most.items()})


def by_board(nodes: Iterable[NodeDigest]) -> list[tuple[OfBoard, int]]:
    """The boards over all these nodes, each with its number of nodes; larger memory first. What is
    free counts only where the node takes work."""
    found: dict[str, OfBoard] = {}
    seen: dict[str, int] = defaultdict(int)
    for node in nodes:
        for of in node.boards:
            whole = found.setdefault(of.board.key, OfBoard(of.board, of.memory_mib))
            seen[of.board.key] += 1
            whole.gpus, whole.out = whole.gpus + of.gpus, whole.out + of.out
            if node.takes_work:
                whole.empty, whole.open = whole.empty + of.empty, whole.open + of.open
                whole.idle += of.idle
                whole.made.update(of.made)
                whole.fits.update(of.fits)
    ordered = sorted(found.values(), key=lambda of: (-of.memory_mib, of.board.key))
    return [(of, seen[of.board.key]) for of in ordered]
