"""Warnings that only a placement shows. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from agents.combinations.combination import CombinationCode
from agents.contract.documents import SliceKind
from scheduler.core.model.decisions import ReplicaPlacement
from scheduler.core.model.snapshot import ClusterSnapshot
from scheduler.core.request import JobRequest
from scheduler.core.request.values import FieldWarning
from scheduler.core.request.warnings import combination_warnings, request_shape


def placed_warnings(
    snapshot: ClusterSnapshot,
    request: JobRequest,
    username: str,
    replicas: Sequence[ReplicaPlacement],
) -> tuple[FieldWarning, ...]:
    """That others have shares of the GPUs on which it would get shares."""
    gpus = {
        device.gpu
        for replica in replicas
        for device in replica.devices
        if device.kind is SliceKind.MPS
    }
    if not gpus or not _others(snapshot, gpus, username):
        return ()
    kinds = frozenset((SliceKind.MPS,))
    shape = replace(request_shape(request), kinds=kinds, has_neighbours=True)
    code = CombinationCode.NEIGHBOURS_ON_MPS
    return tuple(each for each in combination_warnings(shape) if each.combination == code)


def _others(snapshot: ClusterSnapshot, gpus: set[str], username: str) -> bool:
    return any(
        device.gpu in gpus
        for running in snapshot.running
        if running.job.user != username
        for replica in running.replicas
        for device in replica.devices
    )
