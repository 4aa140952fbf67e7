"""The cluster as a pass has it so far: the snapshot plus the decisions that it has made.

Every change can be rolled back to a mark, such as the one taken before a gang that did not fit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.snapshot import ClusterSnapshot, GpuView, NodeView, SliceView, WaitingJob
from scheduler.core.placement.mps_shares import ShareRoom, share_room
from scheduler.core.quota.accounts import QuotaAccounts

T = TypeVar("T")
Layout = frozenset[Placement]
# The parts of a snapshot that a ledger and its accounts are made of.
ALL_BUT_JOBS = ("nodes", "running", "quotas", "budgets", "owners")


@dataclass(slots=True)
class GpuSpace:
    """One GPU in this pass."""

    view: GpuView
    board: Board
    slices: dict[str, SliceView]
    """Live slices by id. Those that the pass makes have ids that begin with "~"."""
    reserved_slices: set[str] = field(default_factory=set)
    """Existing slices that the pass gives to a job."""
    deleted_slices: dict[str, SliceView] = field(default_factory=dict)
    """Idle slices that the pass merges. They still occupy their places for a job that would start
    now, but not for one that waits for a merge."""

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
        """Whether no job has it, neither in the snapshot nor in this pass."""
        return not self.slices[slice_id].allocated and slice_id not in self.reserved_slices

    def layout(self, *, without_idle: bool = False) -> Layout:
        """The MIG placements on the GPU."""
        if without_idle:
            slices = [s for key, s in self.slices.items() if not self.is_idle(key)]
        else:
            slices = [*self.slices.values(), *self.deleted_slices.values()]
        return frozenset(Placement(s.start, s.size, s.profile) for s in slices)

    def share_room(
        self, project: str, clients: int, *, without_idle: bool = False
    ) -> ShareRoom | None:
        """Room for an MPS share of `project`; None if something else is on the GPU."""
        slices = [s for k, s in self.slices.items() if not (without_idle and self.is_idle(k))]
        deleted = () if without_idle else self.deleted_slices.values()
        return share_room([*slices, *deleted], project, self.board.memory_mib, clients)

    def may_carve(self, *, without_idle: bool = False) -> bool:
        """Whether MIG slices can be made: only an empty GPU changes its mode, so all that stays on
        it, also of this pass, has to be MIG."""
        slices = (s for k, s in self.slices.items() if not (without_idle and self.is_idle(k)))
        return self.board.supports_mig and all(s.kind is SliceKind.MIG for s in slices)

    def free_starts(self, profile: str) -> tuple[Placement, ...]:
        """Where a slice of the profile can be made beside all that is on the GPU. Nowhere if the
        board lacks the profile."""
        layout = self.layout()
        if any(not place.profile for place in layout):  # given whole: no geometry of slices
            return ()
        return layout_table(self.board).free_beside(layout).by_profile.get(profile, ())


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
        """GPUs that may still have room: healthy, and not allocated whole."""
        if self._open is None:
            self._open = [
                gpu for gpu in self.gpus if gpu.view.healthy and not gpu.is_allocated_whole
            ]
        return self._open

    def can_host(self, job: WaitingJob, replicas: int = 1) -> bool:
        """Whether there is CPU, memory and disk for this many replicas. A job that requests no disk
        fits a node with none left, or one that does not report its disk."""
        return (
            self.cpu_free_milli >= job.cpu_milli * replicas
            and self.memory_free_mib >= job.memory_mib * replicas
            and (not job.disk_mib or self.disk_free_mib >= job.disk_mib * replicas)
        )

    def forget_open_gpus(self) -> None:
        """Work out `open_gpus` anew when it is read next."""
        self._open = None


# Copies of a ledger that stay for the next pass.
MAX_KEPT_COPIES = 2


class LedgerIndex(Protocol):
    """A structure over a ledger that lives as long as the ledger does.

    It takes in `Ledger.changes` before it answers, and empties them.
    """

    def begin_pass(self) -> None:
        """The ledger follows another snapshot."""


class Ledger:
    """Nodes, GPUs and accounts of one pass."""

    def __init__(self, snapshot: ClusterSnapshot, *, with_accounts: bool = True) -> None:
        """`with_accounts`: whether quotas, budgets and caps are counted."""
        self.nodes = {node.id: _node(node) for node in snapshot.nodes}
        self.gpus = {gpu.view.id: gpu for node in self.nodes.values() for gpu in node.gpus}
        self.accounts = QuotaAccounts(snapshot if with_accounts else ClusterSnapshot(now=0))
        self.snapshot = snapshot
        slices = (s for node in snapshot.nodes for gpu in node.gpus for s in gpu.slices)
        self.has_idle = any(not each.allocated for each in slices)
        """Whether there is anything to merge."""
        self._pristine: Ledger | None = None
        self.changes: set[tuple[str, str]] = set()
        """(node, GPU or "") that changed since the index read them."""
        self._node_of_gpu = {g.view.id: node for node in self.nodes.values() for g in node.gpus}
        self.index: LedgerIndex | None = None
        # Results for the ledger as it is, and for the snapshot.
        self._cache: dict[object, Any] = {}
        self._pass_cache: dict[object, Any] = {}
        self._undo: list[tuple[NodeSpace | None, str, Callable[[], None]]] = []
        # As many of these stay while the snapshots differ in the waiting jobs alone.
        self._kept = 0
        self._made = 0
        self._with_accounts = with_accounts
        # Copies are used again in the next pass. In a copy, the nodes `_copied_nodes` are not as in
        # the snapshot.
        self._copies: list[Ledger] = []
        self._copies_in_use = 0
        self._copied_nodes: set[str] = set()

    def pristine(self) -> "Ledger":
        """The cluster as it was before this pass, made once. Callers roll back their changes."""
        if self._pristine is None:
            self._pristine = Ledger(self.snapshot)
        if self._pristine.snapshot is not self.snapshot:
            self._pristine.follow(self.snapshot)
        return self._pristine

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Become the ledger of a snapshot with the same hardware (`pass_cache`). Only nodes whose
        view is another object are read anew, and the index takes in no more than these."""
        is_same_moment = _differ_in_jobs_alone(self.snapshot, snapshot)
        if not is_same_moment:
            self._kept = 0
        self.rollback(self._kept)
        if snapshot.nodes is not self.snapshot.nodes or self._copied_nodes:
            self._read_changed(snapshot)
        self.snapshot, self._copies_in_use = snapshot, 0
        del self._copies[MAX_KEPT_COPIES:]
        self._copied_nodes.clear()
        self._pass_cache.clear()
        self._cache.clear()
        if self._with_accounts and not is_same_moment:
            self.accounts = QuotaAccounts(snapshot, self.accounts)
        if self.index:
            self.index.begin_pass()

    def _read_changed(self, snapshot: ClusterSnapshot) -> None:
        for view in snapshot.nodes:
            node = self.nodes[view.id]
            if node.view is not view or view.id in self._copied_nodes:
                self._read(node, view)
        self.has_idle = any(
            not s.allocated for gpu in self.gpus.values() for s in gpu.slices.values()
        )

    def keep_reservations(self) -> None:
        """What was reserved and charged so far stays when the ledger follows a snapshot that
        differs in the waiting jobs alone."""
        self._kept = len(self._undo)

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
        """The result of `compute`, cached until something is reserved or released, or else for the
        whole pass."""
        cache = self._pass_cache if for_whole_pass else self._cache
        if key not in cache:
            cache[key] = compute()
        result: T = cache[key]
        return result

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
        """Note a change of the node, or of a GPU on it, and how to undo it."""
        self._touch(node, gpu)
        self._undo.append((node, gpu, undo))

    def _touch(self, node: NodeSpace, gpu: str) -> None:
        node.forget_open_gpus()
        self.changes.add((node.view.id, gpu))
        self._cache.clear()

    def _changed(self, gpu: GpuSpace, undo: Callable[[], None]) -> None:
        self._did(self._node_of_gpu[gpu.view.id], gpu.view.id, undo)

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
        """Reserve an idle slice for the job, or put a new one on the GPU."""
        gpu = self.gpus[place.gpu]
        if place.slice:
            gpu.reserved_slices.add(place.slice)
            self._changed(gpu, lambda: gpu.reserved_slices.discard(place.slice))
            return
        self._made += 1
        key = f"~{self._made}"
        gpu.slices[key] = new_slice(key, place, job)
        self._changed(gpu, partial(gpu.slices.__delitem__, key))

    def delete_idle(self, gpu: GpuSpace, slices: list[str]) -> None:
        """Plan to delete idle slices: no job may reuse them in this pass."""
        deleted = {key: gpu.slices.pop(key) for key in slices}
        gpu.deleted_slices.update(deleted)

        def undo() -> None:
            gpu.slices.update(deleted)
            for key in deleted:
                del gpu.deleted_slices[key]

        self._changed(gpu, undo)

    def release(self, job: WaitingJob, replicas: Iterable[ReplicaPlacement]) -> None:
        """Free the devices of a job, running or placed by this pass, as if it had ended."""
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
        """The same cluster for trials, without accounts and with nothing to roll back. It is valid
        until this ledger follows another snapshot."""
        if self._copies_in_use == len(self._copies):
            self._copies.append(Ledger(self.snapshot, with_accounts=False))
        other = self._copies[self._copies_in_use]
        self._copies_in_use += 1
        other.follow(self.snapshot)
        other._made = max(other._made, self._made)
        for node in {n.view.id: n for n, _, _ in self._undo if n}.values():
            other._copy_node(node)
        return other

    def _copy_node(self, other: NodeSpace) -> None:
        """Make the node equal to this one of another ledger."""
        node = self.nodes[other.view.id]
        node.cpu_free_milli, node.memory_free_mib = other.cpu_free_milli, other.memory_free_mib
        node.disk_free_mib = other.disk_free_mib
        for gpu in other.gpus:
            space = self.gpus[gpu.view.id]
            space.slices, space.deleted_slices = dict(gpu.slices), dict(gpu.deleted_slices)
            space.reserved_slices = set(gpu.reserved_slices)
            self._touch(node, gpu.view.id)
        self._touch(node, "")
        self._copied_nodes.add(node.view.id)

    def charge(
        self, project: str, user: str, units: int, model: str = "", seconds: int = 0
    ) -> None:
        """Count units of a board (its key) on every account of the owner, for at most `seconds`."""
        if self._with_accounts:
            self._undo.append(
                (None, "", self.accounts.charge(project, user, units, model, seconds))
            )


def _differ_in_jobs_alone(one: ClusterSnapshot, other: ClusterSnapshot) -> bool:
    """Whether all else is the same, object by object."""
    parts = (getattr(one, name) is getattr(other, name) for name in ALL_BUT_JOBS)
    return one.now == other.now and all(parts)


def _made_as(gpu: GpuSpace, place: DevicePlacement) -> str:
    """The id of the slice that this pass made for `place`; "" if there is none."""
    shape = (place.kind, place.profile, place.start, place.threads)
    made = (k for k, s in gpu.slices.items() if k[0] == "~" and _shape(s) == shape)
    return next(made, "")


def _shape(view: SliceView) -> tuple[SliceKind, str, int, int]:
    return (view.kind, view.profile, view.start, view.threads)


def _node(view: NodeView) -> NodeSpace:
    gpus = [
        GpuSpace(gpu, gpu_board(gpu), {s.id: s for s in gpu.slices})
        for gpu in sorted(view.gpus, key=lambda g: (g.index, g.id))
    ]
    return NodeSpace(view, gpus, view.cpu_free_milli, view.memory_free_mib, view.disk_free_mib)


def new_slice(
    key: str, place: DevicePlacement, job: WaitingJob, *, ready: bool = False
) -> SliceView:
    """The slice that is made at `place` for a replica of `job`."""
    is_share = place.kind is SliceKind.MPS
    return SliceView(
        key,
        place.kind,
        place.profile,
        place.start,
        place.size,
        allocated=True,
        ready=ready,
        threads=place.threads if is_share else 0,
        memory_mib=place.memory_mib if is_share else 0,
        clients=job.processes if is_share else 0,
        project=job.project if is_share else "",
    )
