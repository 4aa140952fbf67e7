"""Quota that a pass keeps for jobs of the queue: those that it has just placed, and those that wait
until idle slices are deleted or other jobs have stopped."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.core.model.decisions import ReplicaPlacement
from scheduler.core.model.snapshot import ClusterSnapshot
from scheduler.core.quota.holders import board_of_gpus, quota_models


@dataclass(frozen=True, slots=True)
class QuotaPromise:
    """What is kept for one job, on every quota that counts it."""

    job: str
    project: str
    user: str
    board: str
    """The board's key."""
    units: int


def quota_promises(
    snapshot: ClusterSnapshot, places: Mapping[str, Iterable[ReplicaPlacement]]
) -> tuple[QuotaPromise, ...]:
    """`places`: what the pass gave to waiting jobs or keeps for them, by job."""
    if not places:
        return ()
    jobs = {job.id: job for job in snapshot.jobs if job.id in places}
    boards = board_of_gpus(snapshot.nodes)
    promises = []
    for key, replicas in sorted(places.items()):
        devices = [device for replica in replicas for device in replica.devices]
        board = boards.get(devices[0].gpu, "") if devices else ""
        units = sum(device.units for device in devices)
        promises.append(QuotaPromise(key, jobs[key].project, jobs[key].user, board, units))
    return tuple(promises)


def promised_units(
    promises: Iterable[QuotaPromise], *, project: str, user: str = "", model: str = ""
) -> int:
    """What is kept of one quota. Without a user, of the project's; without a model, of any."""
    return sum(
        promise.units
        for promise in promises
        if promise.project == project
        and user in ("", promise.user)
        and model in quota_models(promise.board)
    )
