"""Which replicas get no share or no device here, with a code and a sentence each. Pure.

Running replicas keep their devices; requests follow in order of replica id. So a refusal never
depends on the round that decides it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from agents.contract.documents import DesiredReplica, GpuMode, SliceKind
from agents.contract.message import NO_MESSAGE, Message
from agents.contract.shares import too_few_threads, too_little_memory
from agents.facts.device_keys import DeviceKey, device_key


class ShareCode(StrEnum):
    OVER_THREADS = "mps_over_threads"
    OVER_MEMORY = "mps_over_memory"
    PROJECTS = "mps_projects"
    CLIENTS = "mps_clients"
    MODE = "mps_mode"
    MISSING = "mps_missing"


@dataclass(frozen=True, slots=True)
class ShareRefusal:
    """Why a replica gets no share here."""

    code: ShareCode
    sentence: str
    message: Message = NO_MESSAGE
    """What the sentence was made of, where the portal can translate it."""


@dataclass(frozen=True, slots=True)
class ShareCapacity:
    """What a GPU or a MIG instance can give to shares together."""

    # 0: unknown; then the sum is not checked.
    memory_mib: int
    clients: int


@dataclass(frozen=True, slots=True)
class ShareClaim:
    """What one replica has, or requests, of one device."""

    replica: str
    project: str
    # A share, or else exclusive use of the device.
    kind: SliceKind
    place: DeviceKey
    threads: int = 0
    memory_mib: int = 0
    processes: int = 1
    # The replica has no other device.
    is_only_device: bool = True


def share_claims(replica: DesiredReplica) -> list[ShareClaim]:
    """The claims of a replica, in the order of its devices."""
    return [
        ShareClaim(
            replica=replica.id,
            project=replica.project,
            kind=device.kind,
            place=device_key(device),
            threads=device.threads,
            memory_mib=device.memory_mib,
            processes=replica.processes,
            is_only_device=len(replica.devices) == 1,
        )
        for device in replica.devices
    ]


def share_refusals(
    running: Iterable[ShareClaim],
    requested: Iterable[ShareClaim],
    capacities: Mapping[DeviceKey, ShareCapacity],
    modes: Mapping[str, GpuMode],
    unavailable_reason: str = "",
) -> dict[str, ShareRefusal]:
    """Refusals by replica. Claims in `running` are granted already and are never refused.

    `capacities`: of existing devices; one that is still to be created is missing. `modes`: the mode
    that each GPU has, or should have. `unavailable_reason`: why this node gives no shares at all.
    """
    granted = list(running)
    refused: dict[str, ShareRefusal] = {}
    for claim in sorted(requested, key=lambda c: (c.replica, c.place)):
        if claim.replica in refused:
            continue
        refusal = _refusal(claim, granted, capacities.get(claim.place), modes, unavailable_reason)
        if refusal is None:
            granted.append(claim)
        else:
            refused[claim.replica] = refusal
            granted = [other for other in granted if other.replica != claim.replica]
    return refused


def _refusal(
    claim: ShareClaim,
    granted: list[ShareClaim],
    capacity: ShareCapacity | None,
    modes: Mapping[str, GpuMode],
    unavailable_reason: str,
) -> ShareRefusal | None:
    here = [other for other in granted if overlap(other.place, claim.place)]
    if claim.kind is not SliceKind.MPS:
        shares = [other for other in here if other.kind is SliceKind.MPS]
        return _beside(claim, shares) if shares else None
    if unavailable_reason:
        return ShareRefusal(ShareCode.MISSING, unavailable_reason)
    return _mode(claim, here, modes) or _project(claim, here) or _amounts(claim, here, capacity)


def _beside(claim: ShareClaim, shares: list[ShareClaim]) -> ShareRefusal:
    sentence = (
        f"GPU {claim.place[0]} has {len(shares)} MPS shares: no replica can use it exclusively"
    )
    return ShareRefusal(ShareCode.MODE, sentence)


def _mode(
    claim: ShareClaim, overlapping: list[ShareClaim], modes: Mapping[str, GpuMode]
) -> ShareRefusal | None:
    gpu, profile = claim.place[0], claim.place[1]
    mig = modes.get(gpu) is GpuMode.MIG
    if mig and not profile:
        sentence = f"GPU {gpu} is in MIG mode: a share there must name an instance"
        return ShareRefusal(ShareCode.MODE, sentence)
    if profile and not mig:
        return ShareRefusal(
            ShareCode.MODE, f"GPU {gpu} is not in MIG mode: it has no {profile} to share"
        )
    if not claim.is_only_device:
        sentence = "a CUDA program uses one MPS daemon: a replica can have one share and no more"
        return ShareRefusal(ShareCode.MODE, sentence)
    if any(other.kind is not SliceKind.MPS or other.place != claim.place for other in overlapping):
        sentence = f"GPU {gpu} is in exclusive use: no share can be added"
        return ShareRefusal(ShareCode.MODE, sentence)
    return None


def _project(claim: ShareClaim, overlapping: list[ShareClaim]) -> ShareRefusal | None:
    others = [other.project for other in overlapping if other.project != claim.project]
    if not others:
        return None
    gpu = claim.place[0]
    sentence = f"GPU {gpu} has shares of project {others[0]}: projects do not share an MPS daemon"
    return ShareRefusal(ShareCode.PROJECTS, sentence)


def _amounts(
    claim: ShareClaim, overlapping: list[ShareClaim], capacity: ShareCapacity | None
) -> ShareRefusal | None:
    if not 1 <= claim.threads <= 100:
        sentence = f"a share must have 1 to 100 % of the SMs, this one has {claim.threads} %"
        return ShareRefusal(ShareCode.OVER_THREADS, sentence)
    threads = claim.threads + sum(other.threads for other in overlapping)
    if threads > 100:
        sentence = f"shares would have {threads} % of the SMs of GPU {claim.place[0]} together"
        return ShareRefusal(ShareCode.OVER_THREADS, sentence)
    if why := too_few_threads(claim.threads, claim.processes):
        return ShareRefusal(ShareCode.OVER_THREADS, why.text, why)
    if why := too_little_memory(claim.memory_mib, claim.processes):
        return ShareRefusal(ShareCode.OVER_MEMORY, why.text, why)
    if capacity is None:
        return None
    memory = claim.memory_mib + sum(other.memory_mib for other in overlapping)
    if capacity.memory_mib and memory > capacity.memory_mib:
        sentence = f"shares would have {memory} MiB, the device has {capacity.memory_mib}"
        return ShareRefusal(ShareCode.OVER_MEMORY, sentence)
    count = claim.processes + sum(other.processes for other in overlapping)
    if count > capacity.clients:
        sentence = (
            f"{count} processes: an MPS server takes {capacity.clients} clients on this device"
        )
        return ShareRefusal(ShareCode.CLIENTS, sentence)
    return None


def overlap(first: DeviceKey, second: DeviceKey) -> bool:
    """Whether two devices share hardware: a whole GPU overlaps every instance of it."""
    if first[0] != second[0]:
        return False
    if not first[3] or not second[3]:
        return True
    return first[2] < second[2] + second[3] and second[2] < first[2] + first[3]
