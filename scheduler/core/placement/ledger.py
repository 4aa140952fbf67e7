"""What a pass intends on top of what was observed, so that nothing is spent twice in one pass.

A ledger only fills up; a gang that does not fit is rolled back to the mark taken before it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from agents.contract.boards import Board, Profile
from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.snapshot import ClusterSnapshot, GpuView, NodeView, SliceView, WaitingJob
from scheduler.core.placement.mps_shares import ShareRoom, as_share, share_room
from scheduler.core.quota.accounts import QuotaAccounts

if TYPE_CHECKING:
    from scheduler.core.placement.fleet import Fleet

T = TypeVar("T")
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
    reserved_slices: set[str] = field(default_factory=set)
    deleted_slices: dict[str, SliceView] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.slices

    @property
    def is_allocated_whole(self) -> bool:
        return any(s.kind is SliceKind.GPU and not self.is_idle(k) for k, s in self.slices.items())

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
        return not self.slices[slice_id].allocated and slice_id not in self.reserved_slices

    def layout(self, *, without_idle: bool = False) -> Layout:
        if without_idle:
            kept = [s for key, s in self.slices.items() if not self.is_idle(key)]
        else:
            kept = [*self.slices.values(), *self.deleted_slices.values()]
        return frozenset(Placement(s.start, s.size, s.profile) for s in kept)

    def share_room(
        self, project: str, clients: int, *, without_idle: bool = False
    ) -> ShareRoom | None:
        """What there is for an MPS share of `project`; None where something else is on the GPU."""
        kept = [s for k, s in self.slices.items() if not (without_idle and self.is_idle(k))]
        leaving = () if without_idle else self.deleted_slices.values()
        return share_room([*kept, *leaving], project, self.board.memory_mib, clients)

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
    disk_free_mib: int
    _open: list[GpuSpace] | None = None

    @property
    def open_gpus(self) -> list[GpuSpace]:
        """GPUs that may still have something to give: healthy, and not held whole."""
        if self._open is None:
            self._open = [
                gpu for gpu in self.gpus if gpu.view.healthy and not gpu.is_allocated_whole
            ]
        return self._open

    def can_host(self, job: WaitingJob, replicas: int = 1) -> bool:
        """Whether its CPU, memory and disk do for so many replicas. A job that asks for no disk may
        stand on a node that has none left, or does not say."""
        return (
            self.cpu_free_milli >= job.cpu_milli * replicas
            and self.memory_free_mib >= job.memory_mib * replicas
            and (not job.disk_mib or self.disk_free_mib >= job.disk_mib * replicas)
        )

    def forget_open_gpus(self) -> None:
        """What is open has to be looked at again."""
        self._open = None


# So many copies of a ledger stay for the next pass.
MAX_KEPT_COPIES = 2


class Ledger:
    """The cluster as this pass has it so far."""

    def __init__(self, snapshot: ClusterSnapshot, *, with_accounts: bool = True) -> None:
        """`counts`: whether it knows quotas, budgets and caps."""
        self.nodes = {node.id: _node(node) for node in snapshot.nodes}
        self.gpus = {gpu.view.id: gpu for node in self.nodes.values() for gpu in node.gpus}
        self.accounts = QuotaAccounts(snapshot if with_accounts else ClusterSnapshot(now=0))
        self.snapshot = snapshot
        slices = (s for node in snapshot.nodes for gpu in node.gpus for s in gpu.slices)
        self.has_idle = any(not seen.allocated for seen in slices)
        """Whether there is anything to merge."""
        self._untouched: Ledger | None = None
        # (node, GPU or "") that changed since the fleet looked.
        self.changes: set[tuple[str, str]] = set()
        self._home = {g.view.id: node for node in self.nodes.values() for g in node.gpus}
        self.fleet: Fleet | None = None
        # What was worked out of the ledger as it is, and of the snapshot, to be asked again.
        self._remembered: dict[object, Any] = {}
        self._known: dict[object, Any] = {}
        self._undo: list[tuple[NodeSpace | None, str, Callable[[], None]]] = []
        self._made = 0
        self._counts = with_accounts
        # Copies are used again in the next pass; of them `_others` are not as the snapshot says.
        self._copies: list[Ledger] = []
        self._lent = 0
        self._others: set[str] = set()

    def pristine(self) -> "Ledger":
        """The cluster as it was before this pass, made once. Roll back what you try on it."""
        if self._untouched is None:
            self._untouched = Ledger(self.snapshot)
        if self._untouched.snapshot is not self.snapshot:
            self._untouched.follow(self.snapshot)
        return self._untouched

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Become the ledger of a snapshot with the same hardware (`kept.is_alike`): only nodes
        whose view is another object are read anew, and the fleet takes in no more than that."""
        self.rollback(0)
        for view in snapshot.nodes:
            node = self.nodes[view.id]
            if node.view is not view or view.id in self._others:
                self._read(node, view)
        self.snapshot, self._lent = snapshot, 0
        del self._copies[MAX_KEPT_COPIES:]
        self._others.clear()
        self._known.clear()
        self._remembered.clear()
        self.has_idle = any(
            not s.allocated for gpu in self.gpus.values() for s in gpu.slices.values()
        )
        if self._counts:
            self.accounts = QuotaAccounts(snapshot, self.accounts)
        if self.fleet:
            self.fleet.begin_pass()

    def _read(self, node: NodeSpace, view: NodeView) -> None:
        node.view = view
        node.cpu_free_milli, node.memory_free_mib = view.cpu_free_milli, view.memory_free_mib
        node.disk_free_mib = view.disk_free_mib
        for gpu in view.gpus:
            space = self.gpus[gpu.id]
            space.view, space.slices = gpu, {s.id: s for s in gpu.slices}
            space.reserved_slices, space.deleted_slices = set(), {}
            self._touch(node, gpu.id)
        self._touch(node, "")

    def cached(self, key: object, compute: Callable[[], T], *, for_whole_pass: bool = False) -> T:
        """What `work_out` gives, until something is held or freed; `always`: for the whole pass."""
        kept = self._known if for_whole_pass else self._remembered
        if key not in kept:
            kept[key] = compute()
        found: T = kept[key]
        return found

    def mark(self) -> int:
        """A point to roll back to."""
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        while len(self._undo) > mark:
            node, gpu, undo = self._undo.pop()
            undo()
            if node:
                self._touch(node, gpu)

    def _did(self, node: NodeSpace, gpu: str, undo: Callable[[], None]) -> None:
        """Something changed there, and this takes it back."""
        self._touch(node, gpu)
        self._undo.append((node, gpu, undo))

    def _touch(self, node: NodeSpace, gpu: str) -> None:
        node.forget_open_gpus()
        self.changes.add((node.view.id, gpu))
        self._remembered.clear()

    def _changed(self, gpu: GpuSpace, undo: Callable[[], None]) -> None:
        self._did(self._home[gpu.view.id], gpu.view.id, undo)

    def reserve_host(self, node: NodeSpace, cpu_milli: int, memory_mib: int, disk_mib: int) -> None:
        node.cpu_free_milli -= cpu_milli
        node.memory_free_mib -= memory_mib
        node.disk_free_mib -= disk_mib

        def undo() -> None:
            node.cpu_free_milli += cpu_milli
            node.memory_free_mib += memory_mib
            node.disk_free_mib += disk_mib

        self._did(node, "", undo)

    def reserve_device(self, place: DevicePlacement, job: WaitingJob) -> None:
        """Speak for an idle slice, or put a new one on the GPU."""
        gpu = self.gpus[place.gpu]
        if place.slice:
            gpu.reserved_slices.add(place.slice)
            self._changed(gpu, lambda: gpu.reserved_slices.discard(place.slice))
            return
        self._made += 1
        key = f"~{self._made}"
        made = SliceView(
            key, place.kind, place.profile, place.start, place.size, allocated=True, ready=False
        )
        gpu.slices[key] = as_share(made, place, job) if place.kind is SliceKind.MPS else made
        self._changed(gpu, partial(gpu.slices.__delitem__, key))

    def delete_idle(self, gpu: GpuSpace, slices: list[str]) -> None:
        """Intend to delete idle slices: nobody may reuse them in this pass."""
        gone = {key: gpu.slices.pop(key) for key in slices}
        gpu.deleted_slices.update(gone)

        def undo() -> None:
            gpu.slices.update(gone)
            for key in gone:
                del gpu.deleted_slices[key]

        self._changed(gpu, undo)

    def release(self, job: WaitingJob, replicas: Iterable[ReplicaPlacement]) -> None:
        """Take back what a running job, or one that this pass placed, holds: as if it had ended."""
        units, model = 0, ""
        for replica in replicas:
            if node := self.nodes.get(replica.node):
                self.reserve_host(node, -job.cpu_milli, -job.memory_mib, -job.disk_mib)
            for device in replica.devices:
                units += device.units
                if gpu := self.gpus.get(device.gpu):
                    model = gpu.board.key
                    self._free(gpu, device)
        self.charge(job.project, job.user, -units, model)

    def _free(self, gpu: GpuSpace, place: DevicePlacement) -> None:
        if place.slice in gpu.reserved_slices:
            gpu.reserved_slices.discard(place.slice)
            self._changed(gpu, partial(gpu.reserved_slices.add, place.slice))
            return
        key = place.slice if place.slice in gpu.slices else _made_as(gpu, place)
        if key:
            self._changed(gpu, partial(gpu.slices.__setitem__, key, gpu.slices.pop(key)))

    def copy(self) -> "Ledger":
        """The same cluster to try things on. It has no quotas and nothing to roll back; it is good
        until this ledger follows another snapshot."""
        if self._lent == len(self._copies):
            self._copies.append(Ledger(self.snapshot, with_accounts=False))
        other = self._copies[self._lent]
        self._lent += 1
        other.follow(self.snapshot)
        other._made = max(other._made, self._made)
        for node in {n.view.id: n for n, _, _ in self._undo if n}.values():
            other._become(node)
        return other

    def _become(self, other: NodeSpace) -> None:
        """Its node is as this one of another ledger."""
        node = self.nodes[other.view.id]
        node.cpu_free_milli, node.memory_free_mib = other.cpu_free_milli, other.memory_free_mib
        node.disk_free_mib = other.disk_free_mib
        for gpu in other.gpus:
            space = self.gpus[gpu.view.id]
            space.slices, space.deleted_slices = dict(gpu.slices), dict(gpu.deleted_slices)
            space.reserved_slices = set(gpu.reserved_slices)
            self._touch(node, gpu.view.id)
        self._touch(node, "")
        self._others.add(node.view.id)

    def charge(
        self, project: str, user: str, units: int, model: str = "", seconds: int = 0
    ) -> None:
        """Count units of a board (its key) on every account of the owner, for at most `seconds`."""
        if self._counts:
            self._undo.append(
                (None, "", self.accounts.charge(project, user, units, model, seconds))
            )


def _made_as(gpu: GpuSpace, place: DevicePlacement) -> str:
    """The slice that this pass put there for `place`; "" where there is none."""
    asked = (place.kind, place.profile, place.start, place.threads)
    made = (k for k, s in gpu.slices.items() if k[0] == "~" and _looks(s) == asked)
    return next(made, "")


def _looks(seen: SliceView) -> tuple[SliceKind, str, int, int]:
    return (seen.kind, seen.profile, seen.start, seen.threads)


def _node(view: NodeView) -> NodeSpace:
    gpus = [
        GpuSpace(gpu, gpu_board(gpu), {s.id: s for s in gpu.slices})
        for gpu in sorted(view.gpus, key=lambda g: (g.index, g.id))
    ]
    return NodeSpace(view, gpus, view.cpu_free_milli, view.memory_free_mib, view.disk_free_mib)


def free_starts(board: Board, profile: Profile, layout: Layout) -> tuple[Placement, ...]:
    """Where `profile` can be carved beside `layout`."""
    return (
        ()
        if _has_whole(layout)
        else layout_table(board).free_beside(layout).by_profile[profile.name]
    )


def free_room(board: Board, layout: Layout) -> int:
    """How much can still be made beside `layout`: see layouts.Room.left."""
    return 0 if _has_whole(layout) else layout_table(board).free_beside(layout).room_score


def _has_whole(layout: Layout) -> bool:
    """Whether the GPU is given whole, or was and is not free yet: geometry knows only profiles."""
    return any(not place.profile for place in layout)
