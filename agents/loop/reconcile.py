"""Decides what to do with each replica, from the desired document and the local state. Pure.

Level-triggered: the same inputs give the same actions, however often and after whatever crash.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agents.contract.documents import (
    DesiredReplica,
    DesiredReplicaState,
    Rendezvous,
)
from agents.contract.end_causes import EXCESS_CAUSES, EndCause, ExcessCause
from agents.facts.device_keys import DeviceKey, device_key
from agents.facts.ends import REQUESTED, RunRecord, StopRecord
from agents.facts.failures import ReplicaFailure
from agents.runtime.base import ContainerPhase, ContainerStatus, is_of_other_image

MASS_REMOVAL_MIN = 2
# Of a replica that is not desired, and that an older agent started.
UNKNOWN_GRACE_SECONDS = 10
# At most, of one that goes on writing meanwhile.
EXCESS_GRACE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class PrepareReplica:
    replica: DesiredReplica
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartReplica:
    replica: DesiredReplica
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopReplica:
    """`cause`: an `EndCause`, an `ExcessCause`, or REQUESTED if the portal or a recorded failure
    wants it."""

    replica: str
    grace_seconds: int
    cause: str = REQUESTED


@dataclass(frozen=True, slots=True)
class RemoveReplica:
    replica: str


@dataclass(frozen=True, slots=True)
class FailReplica:
    """The replica cannot run here; recorded once, and kept until the portal drops the replica."""

    replica: str
    failure: ReplicaFailure


@dataclass(frozen=True, slots=True)
class ForgetReplica:
    """Delete the records of a replica that is neither desired nor on the node."""

    replica: str


ReplicaAction = (
    PrepareReplica | StartReplica | StopReplica | RemoveReplica | FailReplica | ForgetReplica
)


def action_subject(action: ReplicaAction) -> str:
    """The id of its replica."""
    match action:
        case PrepareReplica(replica) | StartReplica(replica):
            return replica.id
        case _:
            return action.replica


@dataclass(frozen=True, slots=True)
class LocalState:
    """The node's containers, devices and records. Sets and mappings are by replica id."""

    containers: Mapping[str, ContainerStatus]
    # The highest fence of each job.
    fences: Mapping[str, int]
    failures: Mapping[str, ReplicaFailure]
    started: frozenset[str]
    # Replicas with any record in the journal.
    recorded: frozenset[str]
    # Replicas whose log the portal has completely.
    shipped: frozenset[str]
    # The driver's UUID of every device that may be given out now.
    devices: Mapping[DeviceKey, str]
    # The portal has answered in the agent's present epoch.
    may_remove: bool
    # All that runs has to end.
    is_lease_over: bool = False
    # The lease is valid. Without one nothing starts, even where running replicas are kept.
    may_start: bool = True
    runs: Mapping[str, RunRecord] = field(default_factory=dict)
    stops: Mapping[str, StopRecord] = field(default_factory=dict)
    refusals: Mapping[str, ReplicaFailure] = field(default_factory=dict)
    # Replicas that wrote more than their disk.
    beyond_disk: frozenset[str] = frozenset()


def replica_actions(desired: tuple[DesiredReplica, ...], state: LocalState) -> list[ReplicaAction]:
    """What to do now, in order of replica id."""
    if state.is_lease_over:
        return [*stops_of_all(desired, state, EndCause.LEASE_OVER)]
    actions: list[ReplicaAction] = []
    for replica in sorted(desired, key=lambda r: r.id):
        action = _desired_action(replica, state)
        if action is not None:
            actions.append(action)
    ids = {replica.id for replica in desired}
    if state.may_remove:
        actions += _undesired_actions(ids, state)
    return actions


def stops_of_all(
    desired: tuple[DesiredReplica, ...], state: LocalState, cause: EndCause
) -> list[StopReplica]:
    """For every replica that runs, with its own grace period."""
    graces = {replica.id: replica.grace_seconds for replica in desired}
    return [
        StopReplica(s.replica, graces.get(s.replica, _grace(s, state)), cause)
        for s in state.containers.values()
        if s.phase is ContainerPhase.RUNNING
    ]


def is_mass_removal(
    desired: tuple[DesiredReplica, ...], running: frozenset[str], *, is_older: bool
) -> bool:
    """Whether an older document, as after a restored database, or an empty one would end most work.

    More than half of the running replicas, and more than two, at once is never routine.
    """
    lost = running - {replica.id for replica in desired}
    is_most = 2 * len(lost) > len(running) and len(lost) > MASS_REMOVAL_MIN
    return is_most and (is_older or not desired)


def _desired_action(replica: DesiredReplica, state: LocalState) -> ReplicaAction | None:
    seen = state.containers.get(replica.id)
    if replica.id in state.failures:
        # It was reported as failed, so it must not run either.
        runs = seen is not None and seen.phase is ContainerPhase.RUNNING
        return StopReplica(replica.id, replica.grace_seconds) if runs else None
    stop = state.stops.get(replica.id)
    if stop and stop.cause != REQUESTED and seen and seen.phase is ContainerPhase.RUNNING:
        # It may have had its signal before the agent ended, or before contact came back.
        return _stop_for(replica, stop.cause)
    if replica.id in state.beyond_disk and seen and seen.phase is ContainerPhase.RUNNING:
        return _stop_for(replica, ExcessCause.DISK_FULL)
    if replica.fence < state.fences.get(replica.job, 0):
        sentence = f"fence {replica.fence} is older than {state.fences[replica.job]}"
        return FailReplica(replica.id, ReplicaFailure("fence_stale", sentence))
    if refusal := state.refusals.get(replica.id):
        return FailReplica(replica.id, refusal)
    if seen is None:
        return _absent_action(replica, state)
    if replica.wish is not DesiredReplicaState.STOP and is_of_other_image(replica, seen):
        devices = _devices(replica, state)
        return PrepareReplica(replica, devices) if devices is not None else None
    if replica.wish is DesiredReplicaState.STOP:
        if seen.phase is ContainerPhase.RUNNING:
            return StopReplica(replica.id, replica.grace_seconds)
        if seen.phase is ContainerPhase.CREATED:
            return FailReplica(replica.id, ReplicaFailure("never_started", "stopped before it ran"))
        return None
    is_due = replica.wish is DesiredReplicaState.RUN and seen.phase is ContainerPhase.CREATED
    if is_due and state.may_start:
        replica, devices = _with_own_rendezvous(replica, seen), _devices(replica, state)
        return (
            StartReplica(replica, devices) if replica.rendezvous and devices is not None else None
        )
    return None


def _stop_for(replica: DesiredReplica, cause: str) -> StopReplica:
    is_excess = cause in EXCESS_CAUSES
    grace = min(replica.grace_seconds, EXCESS_GRACE_SECONDS if is_excess else math.inf)
    return StopReplica(replica.id, int(grace), cause)


def _with_own_rendezvous(replica: DesiredReplica, status: ContainerStatus) -> DesiredReplica:
    """A gang of one need not wait for a rendezvous: it meets itself at its own address."""
    if replica.rendezvous or replica.world > 1 or not status.port:
        return replica
    own = Rendezvous(address=status.address, port=status.port, peers=(status.address,))
    return replace(replica, rendezvous=own)


def _absent_action(replica: DesiredReplica, state: LocalState) -> ReplicaAction | None:
    if replica.id in state.started:
        return FailReplica(
            replica.id, ReplicaFailure("vanished", "its container is gone from the node")
        )
    if replica.wish is DesiredReplicaState.STOP:
        return FailReplica(replica.id, ReplicaFailure("never_started", "stopped before it ran"))
    devices = _devices(replica, state)
    return PrepareReplica(replica, devices) if devices is not None else None


def _devices(replica: DesiredReplica, state: LocalState) -> tuple[str, ...] | None:
    """The current UUIDs of its devices; None while one of them does not exist yet."""
    uuids = [state.devices.get(device_key(device)) for device in replica.devices]
    return None if None in uuids else tuple(uuid for uuid in uuids if uuid)


def _grace(seen: ContainerStatus, state: LocalState) -> int:
    """Of a replica that is not desired."""
    run = state.runs.get(seen.replica)
    return run.grace_seconds if run else UNKNOWN_GRACE_SECONDS


def _undesired_actions(ids: set[str], state: LocalState) -> list[ReplicaAction]:
    found: list[ReplicaAction] = []
    for seen in sorted(state.containers.values(), key=lambda s: s.replica):
        if seen.replica in ids:
            continue
        if seen.phase is ContainerPhase.RUNNING:
            found.append(StopReplica(seen.replica, _grace(seen, state)))
        elif seen.phase is ContainerPhase.CREATED or seen.replica in state.shipped:
            found.append(RemoveReplica(seen.replica))
    gone = state.recorded - ids - state.containers.keys()
    return found + [ForgetReplica(replica) for replica in sorted(gone)]
