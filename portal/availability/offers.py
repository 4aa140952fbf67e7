"""What is available by board, over the whole cluster.

Three queries of a few rows a board, for any number of nodes. Says nothing about who holds what.
"""

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Case, Count, Exists, OuterRef, Q, Value, When

from agents.contract.boards import Board
from agents.contract.layouts import layout_table
from portal.availability.layouts import gpu_layout_texts, parse_gpu_layout
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Node, Slice
from scheduler.core.model.states import GpuHealth, NodeStatus


@dataclass(slots=True)
class BoardAvailability:
    """The GPUs of one board."""

    board: Board
    # Faulted, used by a foreign process, or on a node that takes no work. Not counted below.
    out_of_service: int = 0
    # In service.
    gpus: int = 0
    # In service with nothing allocated.
    unallocated: int = 0
    # In service, on nodes that serve MPS shares; and those with nothing allocated.
    shareable: int = 0
    unallocated_shareable: int = 0
    # Idle slices, and how many more can be carved, by profile. Each profile is counted on its own.
    idle_slices: Counter[str] = field(default_factory=Counter)
    carvable: Counter[str] = field(default_factory=Counter)

    @property
    def max_slices(self) -> Counter[str]:
        """How many slices could exist at most, by profile."""
        return _most(self.board, self.gpus)


def board_availability() -> list[BoardAvailability]:
    """The availability of every board of the cluster."""
    blocked, without_shares = _nodes()
    live = Slice.objects.live().filter(gpu=OuterRef("pk"))
    in_service = _in_service("", blocked)
    shares = Case(When(node_id__in=without_shares, then=Value(False)), default=Value(True))
    rows = (
        Gpu.objects.exclude(node__status=NodeStatus.RETIRED)
        .order_by("board")
        .annotate(has_slices=Exists(live), shares=shares)
        .values_list("board", "product_name", "memory_mib", "profiles", "shares")
        .annotate(
            all=Count("id"),
            gpus=Count("id", filter=in_service),
            empty=Count("id", filter=in_service & Q(has_slices=False)),
        )
    )
    found: dict[str, BoardAvailability] = {}
    for key, product, memory, profiles, shares, total, gpus, empty in rows:
        if key not in found:
            row = Gpu(board=key, product_name=product, memory_mib=memory, profiles=profiles)
            found[key] = BoardAvailability(board_of(row))
        of = found[key]
        of.out_of_service, of.gpus, of.unallocated = (
            of.out_of_service + total - gpus,
            of.gpus + gpus,
            of.unallocated + empty,
        )
        of.carvable.update(_most(of.board, empty))
        if shares:
            of.shareable, of.unallocated_shareable = (
                of.shareable + gpus,
                of.unallocated_shareable + empty,
            )
    _add_carved(found, blocked, without_shares)
    return list(found.values())


def _nodes() -> tuple[list[UUID], set[UUID]]:
    """Nodes that block themselves, and nodes that serve no MPS shares."""
    rows = Node.objects.schedulable()
    columns = list(rows.values_list("pk", "facts__blocks", "facts__share_clients"))
    blocked = [pk for pk, blocks, _ in columns if blocks]
    return blocked, {pk for pk, blocks, clients in columns if not blocks and not clients}


def _in_service(to_gpu: str, blocked: list[UUID]) -> Q:
    """The GPUs that can serve a new request; `to_gpu` is the path to them."""
    fine: dict[str, str | bool] = {"health": GpuHealth.OK, "busy": ""}
    fine |= {"node__status": NodeStatus.ONLINE, "node__schedulable": True}
    found = Q(**{f"{to_gpu}{name}": value for name, value in fine.items()})
    return found & ~Q(**{f"{to_gpu}node_id__in": blocked}) if blocked else found


def _add_carved(
    found: dict[str, BoardAvailability], blocked: list[UUID], without: set[UUID]
) -> None:
    """Count what is on partitioned and shared GPUs, and what more fits there."""
    rows = Slice.objects.filter(_in_service("gpu__", blocked))
    texts = gpu_layout_texts(rows, "gpu__board", "gpu__node_id")
    alike = Counter((key, node not in without, text) for key, node, text in texts)
    for (key, shares, text), times in alike.items():
        of = found[key]
        on = parse_gpu_layout(of.board, text)
        of.unallocated += on.is_unallocated * times
        of.unallocated_shareable += on.is_unallocated * shares * times
        for profile in on.idle_profiles:
            of.idle_slices[profile] += times
        for profile, number in on.carvable.items():
            of.carvable[profile] += number * times


def _most(board: Board, gpus: int) -> Counter[str]:
    if not (gpus and board.profiles):
        return Counter()
    most = layout_table(board).free_beside(()).max_count
    return Counter({name: number * gpus for name, number in most.items()})
