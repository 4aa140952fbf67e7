"""From what is wanted and what is there to what to do: pure, so that every case can be tested.

Level-triggered: the same inputs give the same actions, however often and after whatever crash.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agents.contract.documents import (
    DesiredReplica,
    DesiredReplicaState,
    Rendezvous,
)
from agents.facts.device_keys import DeviceKey, device_key
from agents.facts.failures import ReplicaFailure
from agents.runtime.base import ContainerPhase, ContainerStatus

MASS_REMOVAL_LEAST = 2


@dataclass(frozen=True, slots=True)
class Prepare:
    replica: DesiredReplica
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Start:
    replica: DesiredReplica
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    replica: str
    grace_seconds: int


@dataclass(frozen=True, slots=True)
class Remove:
    replica: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The replica cannot go on here; told once, kept until the portal drops the replica."""

    replica: str
    failure: ReplicaFailure


@dataclass(frozen=True, slots=True)
class Forget:
    """Neither wanted nor there: nothing more to remember of it."""

    replica: str


Action = Prepare | Start | Stop | Remove | Fail | Forget


@dataclass(frozen=True, slots=True)
class Known:
    """What the node knows beside its containers.

    `devices`: the driver's UUID of every device that exists now; whole GPUs have no profile and
    size 0. `may_remove`: this agent has had an answer in its present epoch.
    """

    seen: Mapping[str, ContainerStatus]
    fences: Mapping[str, int]
    failures: Mapping[str, ReplicaFailure]
    started: frozenset[str]
    remembered: frozenset[str]
    shipped: frozenset[str]
    devices: Mapping[DeviceKey, str]
    may_remove: bool
    lease_over: bool = False
    refusals: Mapping[str, ReplicaFailure] = field(default_factory=dict)


def actions(wanted: tuple[DesiredReplica, ...], known: Known) -> list[Action]:
    """What to do now, in order of replica id."""
    found: list[Action] = []
    if known.lease_over:
        return [
            Stop(s.replica, 10) for s in known.seen.values() if s.phase is ContainerPhase.RUNNING
        ]
    for replica in sorted(wanted, key=lambda r: r.id):
        action = _wanted(replica, known)
        if action is not None:
            found.append(action)
    ids = {replica.id for replica in wanted}
    if known.may_remove:
        found += _unwanted(ids, known)
    return found


def removes_too_much(
    wanted: tuple[DesiredReplica, ...], running: frozenset[str], *, went_back: bool
) -> bool:
    """A document of a restored older database, or an empty one, that would end most of the work.

    More than half of the running replicas and more than two at once is never routine.
    """
    lost = running - {replica.id for replica in wanted}
    most = 2 * len(lost) > len(running) and len(lost) > MASS_REMOVAL_LEAST
    return most and (went_back or not wanted)


def _wanted(replica: DesiredReplica, known: Known) -> Action | None:
    seen = known.seen.get(replica.id)
    if replica.id in known.failures:
        # It was told as failed, so it must not run either.
        runs = seen is not None and seen.phase is ContainerPhase.RUNNING
        return Stop(replica.id, replica.grace_seconds) if runs else None
    if replica.fence < known.fences.get(replica.job, 0):
        sentence = f"fence {replica.fence} is older than {known.fences[replica.job]}"
        return Fail(replica.id, ReplicaFailure("fence_stale", sentence))
    if refusal := known.refusals.get(replica.id):
        return Fail(replica.id, refusal)
    if seen is None:
        return _absent(replica, known)
    if replica.wish is DesiredReplicaState.STOP:
        if seen.phase is ContainerPhase.RUNNING:
            return Stop(replica.id, replica.grace_seconds)
        if seen.phase is ContainerPhase.CREATED:
            return Fail(replica.id, ReplicaFailure("never_started", "stopped before it ran"))
        return None
    if replica.wish is DesiredReplicaState.RUN and seen.phase is ContainerPhase.CREATED:
        replica, devices = _met(replica, seen), _devices(replica, known)
        return Start(replica, devices) if replica.rendezvous and devices is not None else None
    return None


def _met(replica: DesiredReplica, seen: ContainerStatus) -> DesiredReplica:
    """A gang of one waits for nobody: it meets itself at the address that it offers."""
    if replica.rendezvous or replica.world > 1 or not seen.port:
        return replica
    own = Rendezvous(address=seen.address, port=seen.port, peers=(seen.address,))
    return replace(replica, rendezvous=own)


def _absent(replica: DesiredReplica, known: Known) -> Action | None:
    if replica.id in known.started:
        return Fail(replica.id, ReplicaFailure("vanished", "its container is gone from the node"))
    if replica.wish is DesiredReplicaState.STOP:
        return Fail(replica.id, ReplicaFailure("never_started", "stopped before it ran"))
    devices = _devices(replica, known)
    return Prepare(replica, devices) if devices is not None else None


def _devices(replica: DesiredReplica, known: Known) -> tuple[str, ...] | None:
    """The UUIDs of its devices as they are called now; None while one is still to be made."""
    found = [known.devices.get(device_key(device)) for device in replica.devices]
    return None if None in found else tuple(uuid for uuid in found if uuid)


def _unwanted(ids: set[str], known: Known) -> list[Action]:
    found: list[Action] = []
    for seen in sorted(known.seen.values(), key=lambda s: s.replica):
        if seen.replica in ids:
            continue
        if seen.phase is ContainerPhase.RUNNING:
            found.append(Stop(seen.replica, 10))
        elif seen.phase is ContainerPhase.CREATED or seen.replica in known.shipped:
            found.append(Remove(seen.replica))
    gone = known.remembered - ids - known.seen.keys()
    return found + [Forget(replica) for replica in sorted(gone)]
