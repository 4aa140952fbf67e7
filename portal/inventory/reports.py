"""Apply the GPUs and slices that a node reports. Slices match by position, never by device UUID."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Case, Exists, F, Q, When
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.documents import (
    GpuMode,
    ObservedDocument,
    ObservedGpu,
    ObservedSlice,
    SliceKind,
)
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.message import Message, verbatim
from portal.audit.codes import EventCode
from portal.audit.transitions import Transitions, event_record
from portal.database.kept_queries import KeptSelect
from portal.inventory.disputes import claim_dispute, claims_of, claims_withdraw
from portal.inventory.models import Gpu, Node, Slice, SlotClaim
from portal.live.bell import ring_drive
from scheduler.core.model.states import GpuHealth, NodeStatus, SliceStatus

Place = tuple[str, str, int, int]
# What a report is compared with.
GPU_COLUMNS = (
    *("node", "uuid", "index", "board", "product_name", "memory_mib", "observed_mode"),
    *("pci_bus_id", "numa_node", "profiles", "busy", "health", "health_reason"),
)
_GPUS: KeptSelect[Any] = KeptSelect(
    lambda node: (
        Gpu.objects.filter(node=node)
        .only(*GPU_COLUMNS)
        .annotate(node_disputes=Exists(claims_of(node)))
    ),
    Node._meta.pk,
)
# Nothing that a report has moves a device without a partition that is ready.
_SLICES = KeptSelect(
    lambda node: (
        Slice.objects.live()
        .filter(gpu__node=node)
        .exclude(~Q(kind=SliceKind.MIG), status=SliceStatus.READY)
        .select_related("gpu")
        .locking()
    ),
    Node._meta.pk,
)


def gpu_reports_apply(node: Node, observed: ObservedDocument) -> bool:
    """Insert and update the node's GPUs; mark unreported ones as missing. Returns whether the
    planner has to know."""
    uuids = {seen.uuid for seen in observed.gpus}
    if len(uuids) < len(observed.gpus):
        sentence = "the same GPU appears twice"
        raise ContractError(ContractErrorCode.INVALID_FIELD, sentence, "observed.gpus")
    own = {gpu.uuid: gpu for gpu in _GPUS.rows(node.pk)}
    if own.keys() == uuids and not any(_differs(own[seen.uuid], seen) for seen in observed.gpus):
        # As in most reports: no row is locked.
        if next((gpu.node_disputes for gpu in own.values()), True):
            claims_withdraw(claimant=node, reported=uuids)
        return False
    # Those of other nodes too, in one order: two nodes that report each other's do not deadlock.
    concerned = Gpu.objects.filter(Q(node=node) | Q(uuid__in=uuids))
    rows = {gpu.uuid: gpu for gpu in concerned.lock_rows()}
    for row in rows.values():
        if row.node_id == node.pk:
            row.node = node
    is_added = _gpus_add(node, [seen for seen in observed.gpus if seen.uuid not in rows])
    changed = False
    for seen in observed.gpus:
        found = rows.pop(seen.uuid, None)
        if found is None:
            continue
        if found.node_id == node.pk:
            changed |= _gpu_report(found, seen)
        else:
            is_added |= _gpu_claim(node, found, seen)
    if is_added:
        node.drive_due = True
        node.save(update_fields=["drive_due"])
        ring_drive([node.pk])
    claims_withdraw(claimant=node, reported=uuids)
    for gone in rows.values():
        changed |= _health(gone, GpuHealth.MISSING, "the driver no longer lists it")
    return changed or is_added


def slice_reports_apply(node: Node, observed: ObservedDocument) -> bool:
    """Advance slices to what the node reports. Returns whether one was freed or became ready."""
    seen = {(s.gpu_uuid, s.profile, s.start, s.size): s for s in observed.slices}
    modes = {g.uuid: g.mode for g in observed.gpus}
    transitions, deleted = Transitions(), list[Slice]()
    moved = [_slice_report(row, seen, modes, transitions, deleted) for row in _SLICES.rows(node.pk)]
    transitions.write()
    slices_delete(deleted)
    return any(moved)


def _gpus_add(node: Node, new: list[ObservedGpu]) -> bool:
    """Insert GPUs that nobody has reported. True if one of them is the node's now.

    In order of their UUIDs, so that two nodes that insert the same ones do not deadlock. The later
    one waits, and claims the other's; it holds locks by then, and takes no further ones."""
    if not new:
        return False
    ordered = sorted(new, key=lambda seen: seen.uuid)
    rows = [
        Gpu(uuid=seen.uuid, node=node, desired_mode=seen.mode, **_gpu_columns(seen))
        for seen in ordered
    ]
    Gpu.objects.bulk_create(rows, ignore_conflicts=True)
    is_added = False
    for row in Gpu.objects.filter(uuid__in=[row.uuid for row in rows]).select_related("node"):
        if row.node_id == node.pk:
            is_added = True
        else:
            claim_dispute(gpu=row, claimant=node)
    return is_added


def _gpu_claim(node: Node, row: Gpu, seen: ObservedGpu) -> bool:
    """The node reports a GPU of another one. True if it moves, because that one is retired."""
    if row.node.status != NodeStatus.RETIRED:
        claim_dispute(gpu=row, claimant=node)
        return False
    # A card keeps its UUID when it is put into another server.
    row.node = node
    row.save(update_fields=["node"])
    row.disputes.all().delete()
    _gpu_report(row, seen)
    return True


def _gpu_report(row: Gpu, seen: ObservedGpu) -> bool:
    stale = _stale_columns(row, seen)
    if stale:
        Gpu.objects.filter(pk=row.pk).update(**stale)
    moved = "observed_mode" in stale or "busy" in stale
    return _health(row, _health_of(seen), seen.health_reason) or moved


def _differs(row: Gpu, seen: ObservedGpu) -> bool:
    health = (_health_of(seen), seen.health_reason)
    return (row.health, row.health_reason) != health or bool(_stale_columns(row, seen))


def _stale_columns(row: Gpu, seen: ObservedGpu) -> dict[str, Any]:
    columns = _gpu_columns(seen)
    return {name: value for name, value in columns.items() if getattr(row, name) != value}


def _health_of(seen: ObservedGpu) -> GpuHealth:
    return GpuHealth.OK if seen.healthy else GpuHealth.FAULTED


def _gpu_columns(seen: ObservedGpu) -> dict[str, Any]:
    return {
        "index": seen.index,
        "board": seen.board,
        "product_name": seen.product_name,
        "memory_mib": seen.memory_mib,
        "observed_mode": str(seen.mode),
        "pci_bus_id": seen.pci_bus_id,
        "numa_node": seen.numa_node,
        "profiles": [encode(profile) for profile in seen.profiles],
        "busy": seen.busy,
    }


def _health(row: Gpu, health: GpuHealth, reason: str) -> bool:
    if (row.health, row.health_reason) == (health, reason):
        return False
    Gpu.objects.filter(pk=row.pk).update(health=health, health_reason=reason)
    if row.health == health:
        return False
    message = verbatim(reason) or Message(
        "GPU %(gpu)s is %(health)s", gpu=row.index, health=Message(str(health))
    )
    event_record(row, EventCode(f"health_{health}"), message, actor=f"node:{row.node.name}")
    return True


def _slice_report(
    row: Slice,
    seen: Mapping[Place, ObservedSlice],
    modes: Mapping[str, GpuMode],
    transitions: Transitions,
    deleted: list[Slice],
) -> bool:
    """True if the slice was freed or became ready. Its transition is gathered in `transitions`, or
    itself in `deleted`."""
    if row.status == SliceStatus.DELETING and _is_gone(row, seen):
        deleted.append(row)
        return True
    if row.kind != SliceKind.MIG:
        _unpartitioned_report(row, modes, transitions)
        return False
    observed = seen.get((row.gpu.uuid, row.profile, row.start, row.size))
    status = SliceStatus(row.status)
    if observed is None:
        if status is SliceStatus.READY:
            # Lost (reboot, reset), so that it must be carved again.
            transitions.advance(
                row,
                SliceStatus.CREATING,
                code=EventCode.VANISHED,
                device_uuid="",
                ready_at=None,
            )
        return False
    uuid, was_busy = observed.uuid, row.busy
    if observed.busy != was_busy:
        Slice.objects.filter(pk=row.pk).update(busy=observed.busy)
    if status in (SliceStatus.PLANNED, SliceStatus.CREATING, SliceStatus.FAILED):
        transitions.advance(row, SliceStatus.READY, device_uuid=uuid, ready_at=timezone.now())
        return True
    if row.device_uuid != uuid:
        Slice.objects.filter(pk=row.pk).update(device_uuid=uuid)
    return bool(was_busy) and not observed.busy


def _is_gone(row: Slice, seen: Mapping[Place, ObservedSlice]) -> bool:
    """A whole GPU, or a share of one, is nothing that a node would still have."""
    place = (row.gpu.uuid, row.profile, row.start, row.size)
    return row.kind != SliceKind.MIG or place not in seen


def _unpartitioned_report(
    row: Slice, modes: Mapping[str, GpuMode], transitions: Transitions
) -> None:
    """A whole GPU, or an MPS share of one: ready as soon as the GPU is not partitioned. That frees
    nothing, as such a slice exists only with its allocation."""
    is_whole = modes.get(row.gpu.uuid) in (GpuMode.WHOLE, GpuMode.MPS)
    if is_whole and row.status in (SliceStatus.PLANNED, SliceStatus.CREATING):
        device = row.gpu.uuid
        transitions.advance(row, SliceStatus.READY, device_uuid=device, ready_at=timezone.now())


def slice_delete(row: Slice) -> None:
    """Mark the slice as deleted and release its claims, or its MPS share."""
    slices_delete([row])


def slices_delete(rows: Iterable[Slice], transitions: Transitions | None = None) -> None:
    """Mark the slices as deleted and release their claims, or their MPS shares.

    The caller has locked them and their GPUs. `transitions`: what it has gathered, to be written
    with theirs.
    """
    now, rows = timezone.now(), list(rows)
    transitions = transitions or Transitions()
    for row in rows:
        transitions.advance(row, SliceStatus.DELETED, device_uuid="", deleted_at=now)
    transitions.write()
    if not rows:
        return
    SlotClaim.objects.filter(slice__in=rows).delete()
    shares: dict[UUID, list[Slice]] = defaultdict(list)
    for row in rows:
        if row.kind == SliceKind.MPS:
            shares[row.gpu_id].append(row)
    for gpu_id, ended in shares.items():
        threads = sum(row.threads for row in ended)
        last = When(shared_threads=threads, then=None)
        Gpu.objects.filter(pk=gpu_id).update(
            shared_threads=F("shared_threads") - threads,
            shared_memory_mib=F("shared_memory_mib") - sum(row.memory_mib for row in ended),
            sharing_project=Case(last, default=F("sharing_project")),
        )
