"""What a pass intends on top of what was observed, so that nothing is spent twice in one pass.

A ledger only fills up; a gang that does not fit is rolled back to the mark taken before it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from agents.contract.boards import Board, Profile
from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layouts
from scheduler.core.decisions import SlicePlace
from scheduler.core.shares import Left, left, share_of
from scheduler.core.values import ClusterSnapshot, GpuView, NodeView, SliceView, WaitingJob
from scheduler.core.wants import gpu_board

Layout = frozenset[Placement]


@dataclass(slots=True)
class GpuSpace:
    """One GPU in this pass. `slices` are the live ones by id, the pass's own under made-up ids.

    `leaving`: idle slices that the pass merges. They are still there for who could start now, and
    gone for who waits for a merge.
    """

    view: GpuView
    board: Board
    slices: dict[str, SliceView]
    spoken_for: set[str] = field(default_factory=set)
    leaving: dict[str, SliceView] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.slices

    @property
    def is_shared(self) -> bool:
        """In MPS shares, or about to be."""
        return any(s.kind is SliceKind.MPS for s in self.slices.values())

    @property
    def is_carved(self) -> bool:
        """In MIG mode with something on it, or about to be."""
        return any(s.kind is SliceKind.MIG for s in self.slices.values())

    def is_idle(self, slice_id: str) -> bool:
        """Nobody holds it, in the rows or in this pass."""
        return not self.slices[slice_id].held and slice_id not in self.spoken_for

    def layout(self, *, without_idle: bool = False) -> Layout:
        if without_idle:
            kept = [s for key, s in self.slices.items() if not self.is_idle(key)]
        else:
            kept = [*self.slices.values(), *self.leaving.values()]
        return frozenset(Placement(s.start, s.size, s.profile) for s in kept)

    def left_for(self, project: str, clients: int, *, without_idle: bool = False) -> Left | None:
        """What there is for an MPS share of `project`; None where something else is on the GPU."""
        kept = [s for k, s in self.slices.items() if not (without_idle and self.is_idle(k))]
        leaving = () if without_idle else self.leaving.values()
        return left([*kept, *leaving], project, self.board.memory_mib, clients)

    def may_carve(self, *, without_idle: bool = False) -> bool:
        """Mode changes only on an empty GPU: what stays on it is MIG (of this pass, too)."""
        kept = (s for k, s in self.slices.items() if not (without_idle and self.is_idle(k)))
        return self.board.supports_mig and all(s.kind is SliceKind.MIG for s in kept)


@dataclass(slots=True)
class NodeSpace:
    view: NodeView
    gpus: list[GpuSpace]
    cpu_free_milli: int
    memory_free_mib: int


@dataclass(slots=True)
class Account:
    """A quota in this pass, in units."""

    limit: int
    used: int


class Ledger:
    """The cluster as this pass has it so far."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.nodes = {node.id: _node(node) for node in snapshot.nodes}
        self.gpus = {gpu.view.id: gpu for node in self.nodes.values() for gpu in node.gpus}
        self.accounts = {
            (q.project, q.user): Account(q.limit_units, q.used_units) for q in snapshot.quotas
        }
        self.snapshot = snapshot
        self._untouched: Ledger | None = None
        self._undo: list[Callable[[], None]] = []
        self._made = 0

    def untouched(self) -> "Ledger":
        """The cluster as it was before this pass, made once. Roll back what you try on it."""
        self._untouched = self._untouched or Ledger(self.snapshot)
        return self._untouched

    def mark(self) -> int:
        """A point to roll back to."""
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        while len(self._undo) > mark:
            self._undo.pop()()

    def hold_node(self, node: NodeSpace, cpu_milli: int, memory_mib: int) -> None:
        node.cpu_free_milli -= cpu_milli
        node.memory_free_mib -= memory_mib

        def undo() -> None:
            node.cpu_free_milli += cpu_milli
            node.memory_free_mib += memory_mib

        self._undo.append(undo)

    def hold_device(self, place: SlicePlace, job: WaitingJob) -> None:
        """Speak for an idle slice, or put a new one on the GPU."""
        gpu = self.gpus[place.gpu]
        if place.slice:
            gpu.spoken_for.add(place.slice)
            self._undo.append(lambda: gpu.spoken_for.discard(place.slice))
            return
        self._made += 1
        key = f"~{self._made}"
        made = SliceView(
            key, place.kind, place.profile, place.start, place.size, held=True, ready=False
        )
        gpu.slices[key] = share_of(made, place, job) if place.kind is SliceKind.MPS else made
        self._undo.append(partial(gpu.slices.__delitem__, key))

    def drop_idle(self, gpu: GpuSpace, slices: list[str]) -> None:
        """Intend to delete idle slices: nobody may reuse them in this pass."""
        gone = {key: gpu.slices.pop(key) for key in slices}
        gpu.leaving.update(gone)

        def undo() -> None:
            gpu.slices.update(gone)
            for key in gone:
                del gpu.leaving[key]

        self._undo.append(undo)

    def charge(self, project: str, user: str, units: int) -> None:
        for key in ((project, ""), (project, user)):
            account = self.accounts.get(key)
            if account is not None:
                account.used += units
                self._undo.append(_refund(account, units))


def _refund(account: Account, units: int) -> Callable[[], None]:
    def undo() -> None:
        account.used -= units

    return undo


def _node(view: NodeView) -> NodeSpace:
    gpus = [
        GpuSpace(gpu, gpu_board(gpu), {s.id: s for s in gpu.slices})
        for gpu in sorted(view.gpus, key=lambda g: (g.index, g.id))
    ]
    return NodeSpace(view, gpus, view.cpu_free_milli, view.memory_free_mib)


def starts(board: Board, profile: Profile, layout: Layout) -> tuple[Placement, ...]:
    """Where `profile` can be carved beside `layout`."""
    return () if _has_whole(layout) else layouts(board).beside(layout).free[profile.name]


def room(board: Board, layout: Layout) -> int:
    """How much can still be made beside `layout`: see layouts.Room.left."""
    return 0 if _has_whole(layout) else layouts(board).beside(layout).left


def _has_whole(layout: Layout) -> bool:
    """Whether the GPU is given whole, or was and is not free yet: geometry knows only profiles."""
    return any(not place.profile for place in layout)
