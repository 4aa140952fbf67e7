"""Partition changes as a diff: keep what matches, create and delete only what must change. Pure.

An instance that a replica uses is never touched. The order is: delete what is in the way, change
modes, then create. What cannot be done now is a problem, which the next round tries again.
"""

from collections.abc import Iterable
from dataclasses import replace

from agents.contract.documents import GpuMode
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from agents.facts.device_keys import InstancePlace
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.facts.partitions import PartitionProblem
from agents.partitioning.steps import (
    CompleteInstance,
    CreateInstance,
    DestroyInstance,
    PartitionChanges,
    SetMigMode,
    WantedSlice,
)


def partition_changes(
    gpus: Iterable[GpuFacts],
    live: Iterable[InstanceFacts],
    desired: Iterable[WantedSlice],
    modes: dict[str, GpuMode],
    in_use: frozenset[InstancePlace],
) -> PartitionChanges:
    """The steps from the live instances to the desired ones, on the GPUs that `modes` names."""
    changes = PartitionChanges()
    gpus, live, desired = list(gpus), list(live), list(desired)
    for gpu in gpus:
        here = sorted(w for w in desired if w.gpu_uuid == gpu.uuid)
        mode = modes.get(gpu.uuid)
        if refused := _refusal(gpu, here, mode):
            # The GPU stays as it is: half of an impossible layout is of no use.
            changes.problems += [replace(refused, slice=want.id) for want in here]
        elif mode is not None and gpu.mig_current is not None:
            stands = [i for i in live if i.gpu_uuid == gpu.uuid]
            _gpu_changes(changes, gpu, stands, here, mode, in_use)
    known = {gpu.uuid for gpu in gpus}
    for want in desired:
        if want.gpu_uuid not in known:
            sentence = f"this node has no GPU {want.gpu_uuid}"
            changes.problems.append(
                PartitionProblem(want.gpu_uuid, "no_such_gpu", sentence, want.id)
            )
    return changes


def _refusal(
    gpu: GpuFacts, desired: list[WantedSlice], mode: GpuMode | None
) -> PartitionProblem | None:
    """Why these slices cannot be on the GPU, whatever is there now; None if they can."""
    if not desired:
        return None
    where = f"GPU {gpu.index} ({gpu.board.key})"
    if gpu.mig_current is None:
        return PartitionProblem(gpu.uuid, "no_mig", f"{where} has no MIG")
    if mode is GpuMode.MPS:
        sentence = f"{where} cannot be shared as a whole and have slices at once"
        return PartitionProblem(gpu.uuid, "mode_mps", sentence)
    if mode is not GpuMode.MIG:
        sentence = f"{where} cannot be whole and have slices at once"
        return PartitionProblem(gpu.uuid, "mode_whole", sentence)
    # A slice with a profile that the board lacks gets a problem of its own.
    layout = [
        Placement(w.start, w.size, w.profile) for w in desired if gpu.board.profile(w.profile)
    ]
    if not layout_table(gpu.board).is_legal(layout):
        names = ", ".join(f"{w.profile} at {w.start}" for w in desired)
        return PartitionProblem(gpu.uuid, "illegal_layout", f"{where} cannot have {names} together")
    return None


def _gpu_changes(
    changes: PartitionChanges,
    gpu: GpuFacts,
    live: list[InstanceFacts],
    desired: list[WantedSlice],
    mode: GpuMode,
    in_use: frozenset[InstancePlace],
) -> None:
    kept = {i.start: i for i in live for w in desired if _same(i, w)}
    busy = [i for i in live if i.start not in kept and _place(i) in in_use]
    gone = [i for i in live if i.start not in kept and i not in busy]
    changes.steps += [DestroyInstance(gpu.uuid, i.instance_id, i.start, i.size) for i in gone]
    changes.steps += [
        CompleteInstance(gpu.uuid, i.instance_id) for i in kept.values() if not i.uuid
    ]
    # For the driver, a GPU with shares is a whole one.
    mig = mode is GpuMode.MIG
    if mig is not gpu.mig_current and (busy or kept or (gpu.uuid, 0, 0) in in_use):
        sentence = f"GPU {gpu.index} changes its mode when nothing of it is in use"
        changes.problems.append(PartitionProblem(gpu.uuid, "in_use", sentence))
        return
    if mig is not gpu.mig_current or mig is not gpu.mig_pending:
        # The second case: a change is pending that is not desired any more.
        changes.steps.append(SetMigMode(gpu.uuid, mig))
    for want in desired if mig else ():
        if want.start not in kept:
            _add_create(changes, gpu, want, busy)


def _add_create(
    changes: PartitionChanges, gpu: GpuFacts, want: WantedSlice, in_use: list[InstanceFacts]
) -> None:
    profile = gpu.board.profile(want.profile)
    if profile is None:
        sentence = f"GPU {gpu.index} ({gpu.board.key}) has no profile {want.profile}"
        changes.problems.append(PartitionProblem(gpu.uuid, "no_such_profile", sentence, want.id))
        return
    blocking = [
        i for i in in_use if i.start < want.start + want.size and want.start < i.start + i.size
    ]
    if blocking:
        sentence = f"slice at {blocking[0].start} of GPU {gpu.index} is still in use"
        changes.problems.append(PartitionProblem(gpu.uuid, "in_use", sentence, want.id))
        return
    changes.steps.append(CreateInstance(want, profile.id))


def _same(instance: InstanceFacts, want: WantedSlice) -> bool:
    place = (instance.profile, instance.start, instance.size)
    return place == (want.profile, want.start, want.size)


def _place(instance: InstanceFacts) -> InstancePlace:
    return (instance.gpu_uuid, instance.start, instance.size)
