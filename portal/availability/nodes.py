"""A few numbers for each node, for pages about a thousand nodes.

Four queries of plain columns for any size: the database counts whole GPUs, and only GPUs that are
partitioned or shared are read one by one. Says nothing about who holds what.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from django.db.models import Count, Exists, OuterRef, Q, Sum, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from agents.contract.boards import Board
from agents.contract.layouts import layout_table
from portal.allocations.models import Allocation
from portal.availability.layouts import GpuLayout, gpu_layout_texts, parse_gpu_layout
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Node, Slice
from scheduler.core.model.states import GpuHealth, NodeStatus

# How a database writes an empty or unreported list of problems.
EMPTY_VALUES = (None, "", "[]", "null")


@dataclass(slots=True)
class BoardCounts:
    """The GPUs of one board on one node, or on several."""

    board: Board
    memory_mib: int
    gpus: int = 0
    out_of_service: int = 0
    # Healthy GPUs without any slice.
    empty: int = 0
    # Healthy GPUs with nothing allocated.
    unallocated: int = 0
    idle_slices: int = 0
    # The layouts of the healthy GPUs that are partitioned or shared, and how many have each.
    layout_texts: Counter[str] = field(default_factory=Counter)

    @property
    def idle_profiles(self) -> Counter[str]:
        """Idle slices by profile."""
        found: Counter[str] = Counter()
        for on, times in self._carved():
            for profile in on.idle_profiles:
                found[profile] += times
        return found

    @property
    def carvable(self) -> Counter[str]:
        """How many more slices can be carved, by profile; each profile is counted on its own."""
        found = Counter({name: most * self.empty for name, most in self._on_empty().items()})
        for on, times in self._carved():
            for profile, most in on.carvable.items():
                found[profile] += most * times
        return found

    @property
    def can_carve(self) -> bool:
        return any(self._on_empty().values()) or any(
            any(on.carvable.values()) for on, _ in self._carved()
        )

    def has_room_for(self, profile: str) -> bool:
        """True if a slice of this profile is idle or can be carved."""
        return bool(self._on_empty().get(profile)) or any(
            profile in on.idle_profiles or on.carvable.get(profile) for on, _ in self._carved()
        )

    def _carved(self) -> Iterator[tuple[GpuLayout, int]]:
        return (
            (parse_gpu_layout(self.board, text), times) for text, times in self.layout_texts.items()
        )

    def _on_empty(self) -> Mapping[str, int]:
        """What can be carved on an empty GPU."""
        return (
            layout_table(self.board).free_beside(()).max_count
            if self.empty and self.board.profiles
            else {}
        )


@dataclass(slots=True)
class NodeAvailability:
    """The totals of one node. One that takes no work has nothing free, idle or carvable."""

    name: str
    status: str
    schedulable: bool
    blocked: bool
    labels: tuple[str, ...]
    driver: str = ""
    boards: list[BoardCounts] = field(default_factory=list)
    allocated_units: int = 0
    takes_work: bool = field(init=False)
    gpus: int = 0
    out_of_service: int = 0
    free: int = 0
    idle_slices: int = 0

    def __post_init__(self) -> None:
        is_online = self.status == NodeStatus.ONLINE
        self.takes_work = is_online and self.schedulable and not self.blocked

    def add_up(self) -> None:
        """Sum up the boards, once all of them are counted."""
        for of in self.boards:
            self.gpus, self.out_of_service = (
                self.gpus + of.gpus,
                self.out_of_service + of.out_of_service,
            )
            if self.takes_work:
                self.free, self.idle_slices = (
                    self.free + of.empty,
                    self.idle_slices + of.idle_slices,
                )

    @property
    def models(self) -> list[str]:
        return [of.board.model for of in self.boards]

    @property
    def can_carve(self) -> bool:
        return self.takes_work and any(of.can_carve for of in self.boards)

    def has_room_for(self, profile: str) -> bool:
        """True if a slice of this profile is idle or can be carved."""
        return self.takes_work and any(of.has_room_for(profile) for of in self.boards)

    def label(self, key: str) -> str:
        """ "train" for the key "pool" and the label "pool=train"; empty without such a label."""
        head = f"{key}="
        return next((word[len(head) :] for word in self.labels if word.startswith(head)), "")


def node_availability(name: str = "") -> list[NodeAvailability]:
    """Every node that is not retired, by name; or only the node `name`."""
    found = {digest.name: digest for digest in _nodes(name)}
    if not found:
        return []
    counted = _boards(found, name)
    for node, board, usable, healthy, text in _carved(name):
        if of := counted.get((node, board)):
            _count(of, usable, healthy, text)
    rows = Allocation.objects.live().order_by()
    rows = rows.filter(slice__gpu__node__name=name) if name else rows
    held = rows.values_list("slice__gpu__node__name").annotate(units=Sum("units"))
    for node, units in held:
        if node in found:
            found[node].allocated_units = units
    for digest in found.values():
        digest.add_up()
    return list(found.values())


def _nodes(name: str) -> Iterator[NodeAvailability]:
    rows = Node.objects.active().order_by("name")
    rows = rows.filter(name=name) if name else rows
    facts = (KT("facts__blocks"), KT("facts__driver_version"), Cast("labels", TextField()))
    columns = rows.values_list("name", "status", "schedulable", *facts)
    for node, status, schedulable, blocks, driver, labels in columns:
        blocked = blocks not in EMPTY_VALUES
        yield NodeAvailability(node, status, schedulable, blocked, _words(labels), driver or "")


@lru_cache(4_096)
def _words(labels: str) -> tuple[str, ...]:
    """Parsed labels; cached, as nodes of a rack have the same ones."""
    return tuple(json.loads(labels))


def _boards(nodes: dict[str, NodeAvailability], name: str) -> dict[tuple[str, str], BoardCounts]:
    """The GPUs, counted by node and board."""
    live = Slice.objects.live().filter(gpu=OuterRef("pk"))
    healthy = Q(health=GpuHealth.OK)
    kinds = ("board", "product_name", "memory_mib", "profiles_json")
    rows = (
        (Gpu.objects.filter(node__name=name) if name else Gpu.objects)
        .order_by("node__name", "board")
        .annotate(has_slices=Exists(live), profiles_json=Cast("profiles", TextField()))
        .values_list("node__name", *kinds)
        .annotate(
            gpus=Count("id"),
            out=Count("id", filter=~healthy),
            empty=Count("id", filter=healthy & Q(busy="", has_slices=False)),
        )
    )
    found: dict[tuple[str, str], BoardCounts] = {}
    for node, key, product, memory, profiles, gpus, out, empty in rows:
        if node not in nodes:
            continue
        of = found.get((node, key))
        if of is None:
            of = found[node, key] = BoardCounts(_board(key, product, memory, profiles), memory)
            nodes[node].boards.append(of)
        of.gpus, of.out_of_service, of.empty = (
            of.gpus + gpus,
            of.out_of_service + out,
            of.empty + empty,
        )
        of.unallocated += empty
    return found


@lru_cache(256)
def _board(key: str, product: str, memory: int, profiles: str) -> Board:
    stored = json.loads(profiles)
    return board_of(Gpu(board=key, product_name=product, memory_mib=memory, profiles=stored))


def _carved(name: str) -> Iterator[tuple[str, str, bool, bool, str]]:
    """Partitioned and shared GPUs: node, board, is in service, is healthy, slices as a text."""
    rows = Slice.objects.filter(gpu__node__name=name) if name else Slice.objects.all()
    columns = ("gpu__node__name", "gpu__board", "gpu__health", "gpu__busy")
    for node, board, health, busy, text in gpu_layout_texts(rows, *columns):
        healthy = health == GpuHealth.OK
        yield node, board, healthy and not busy, healthy, text


def _count(of: BoardCounts, usable: bool, healthy: bool, text: str) -> None:
    on = parse_gpu_layout(of.board, text)
    of.idle_slices += on.idle_count * healthy
    if usable:
        of.unallocated += on.is_unallocated
        of.layout_texts[text] += 1


def counts_by_board(nodes: Iterable[NodeAvailability]) -> list[tuple[BoardCounts, int]]:
    """The totals of each board over these nodes, with its number of nodes; larger memory first.

    Only nodes that take work count as free or idle.
    """
    totals: dict[str, BoardCounts] = {}
    node_counts: dict[str, int] = defaultdict(int)
    for node in nodes:
        for of in node.boards:
            key = of.board.key
            total = totals.get(key) or totals.setdefault(key, BoardCounts(of.board, of.memory_mib))
            node_counts[key] += 1
            total.gpus, total.out_of_service = (
                total.gpus + of.gpus,
                total.out_of_service + of.out_of_service,
            )
            if node.takes_work:
                total.empty, total.unallocated = (
                    total.empty + of.empty,
                    total.unallocated + of.unallocated,
                )
                total.idle_slices += of.idle_slices
                for text, times in of.layout_texts.items():
                    total.layout_texts[text] += times
    ordered = sorted(totals.values(), key=lambda of: (-of.memory_mib, of.board.key))
    return [(of, node_counts[of.board.key]) for of in ordered]
