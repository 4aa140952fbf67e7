"""Alternatives: small changes of a waiting job's request with which it could start now.

Every alternative was tried: it is returned only if `can_start` confirms it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from agents.contract.boards import Board, Profile
from agents.contract.message import Message
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.snapshot import DeviceRequest, Isolation, Topology, WaitingJob
from scheduler.core.request.formats import device_as_dict
from scheduler.core.request.quantities import memory_words, write_seconds

CanStart = Callable[[WaitingJob], bool]
# At most this many changes are tried for one job, the smallest of each kind first.
MAX_TRIED = 20
# Of these at most so many are smaller profiles: what is left of a quota may be a seventh of a GPU.
MAX_PROFILES = 8
SHORTEST_LIMIT = 900


class AlternativeKind(StrEnum):
    """Which part of the request changes."""

    MODEL = "model"
    PROFILE = "profile"
    SHARE = "share"
    GPUS = "gpus"
    REPLICAS = "replicas"
    SPREAD = "spread"
    NODE = "node"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Alternative:
    """`changes`: the fields of the request to replace, in the form users write them."""

    kind: AlternativeKind
    message: Message
    changes: dict[str, Any]

    @property
    def sentence(self) -> str:
        """In English."""
        return self.message.text

    def as_dict(self) -> dict[str, Any]:
        texts = {"sentence": self.sentence, "said": self.message.as_dict()}
        return {"kind": str(self.kind), **texts, "changes": self.changes}


def alternatives(
    job: WaitingJob,
    boards: Iterable[Board],
    can_start: CanStart,
    *,
    max_alternatives: int = 3,
    max_tried: int = MAX_TRIED,
) -> list[Alternative]:
    """Up to `max_alternatives` changes with which the job could start now, smallest first, at most
    one of each kind. `can_start` is called at most `max_tried` times."""
    found: dict[AlternativeKind, Alternative] = {}
    for alternative, changed in _changes(job, list(boards)):
        if len(found) == max_alternatives or not max_tried:
            break
        if alternative.kind in found:
            continue
        max_tried -= 1
        if can_start(changed):
            found[alternative.kind] = alternative
    return list(found.values())


def _changes(job: WaitingJob, boards: list[Board]) -> Iterator[tuple[Alternative, WaitingJob]]:
    """From changes a user would hardly notice to those that make it another job."""
    yield from _shorter(job)
    if job.needs:
        changed = replace(job, needs=())
        yield (
            Alternative(AlternativeKind.NODE, make_message("instead.any_node"), {"needs": []}),
            changed,
        )
    if job.device.models:
        yield _device(
            AlternativeKind.MODEL,
            make_message("instead.any_model"),
            job,
            replace(job.device, models=()),
        )
    if job.topology in (Topology.SAME_NODE, Topology.NVLINK) and job.replicas > 1:
        changed = replace(job, topology=Topology.ANY)
        message = make_message("instead.spread")
        yield Alternative(AlternativeKind.SPREAD, message, {"topology": str(Topology.ANY)}), changed
    yield from _other_boards(job, boards)
    yield from _shares(job, boards)
    yield from _smaller(job, boards)
    yield from _less_memory(job, boards)
    yield from _fewer(job)


def _device(
    kind: AlternativeKind, message: Message, job: WaitingJob, device: DeviceRequest
) -> tuple[Alternative, WaitingJob]:
    changes = {"device": device_as_dict(device)}
    return Alternative(kind, message, changes), replace(job, device=device)


def _shorter(job: WaitingJob) -> Iterator[tuple[Alternative, WaitingJob]]:
    """A job that ends before a reservation begins may start ahead of it."""
    limit = job.time_limit_seconds
    for seconds in (limit // 2, limit // 4, limit // 8):
        rounded = seconds // SHORTEST_LIMIT * SHORTEST_LIMIT
        if SHORTEST_LIMIT <= rounded < limit:
            text = write_seconds(rounded)
            changed = replace(job, time_limit_seconds=rounded)
            message = make_message("instead.limit", limit=text)
            yield Alternative(AlternativeKind.LIMIT, message, {"time_limit": text}), changed


def _other_boards(job: WaitingJob, boards: list[Board]) -> Iterator[tuple[Alternative, WaitingJob]]:
    """The same memory on any board, if a profile of one board was requested."""
    if memory := _profile_memory(job.device, boards) or job.device.mps_memory_mib:
        way = DeviceRequest(memory_mib=memory, models=job.device.models)
        device = replace(way, isolation=Isolation.HARDWARE)
        message = make_message("instead.memory", memory=_gigabytes(memory))
        yield _device(AlternativeKind.MODEL, message, job, device)


def _shares(job: WaitingJob, boards: list[Board]) -> Iterator[tuple[Alternative, WaitingJob]]:
    memory = job.device.memory_mib or _profile_memory(job.device, boards)
    if memory and job.device.isolation is Isolation.HARDWARE:
        device = replace(job.device, mig="", memory_mib=memory, isolation=Isolation.ANY)
        message = make_message("instead.share", memory=_gigabytes(memory))
        yield _device(AlternativeKind.SHARE, message, job, device)


def _smaller(job: WaitingJob, boards: list[Board]) -> Iterator[tuple[Alternative, WaitingJob]]:
    """Smaller slices; fewer whole GPUs, and a slice instead of one."""
    device = job.device
    if device.gpus > 1:
        for gpus in _halves(device.gpus):
            message = make_message("instead.gpus", gpus=gpus)
            yield _device(AlternativeKind.GPUS, message, job, replace(device, gpus=gpus))
    profiles = _plain(boards, device)
    sizes = [_size(p) for p in profiles if p.name == device.mig]
    least = (10**9, 0) if device.gpus == 1 else min(sizes, default=_named(device.mig))
    below = sorted((p for p in profiles if _size(p) < least), key=lambda p: p.name)
    for profile in sorted(below, key=_size, reverse=True)[:MAX_PROFILES]:
        changed = replace(device, gpus=0, mig=profile.name)
        yield _device(
            AlternativeKind.PROFILE,
            make_message("instead.profile", profile=profile.name),
            job,
            changed,
        )


def _less_memory(job: WaitingJob, boards: list[Board]) -> Iterator[tuple[Alternative, WaitingJob]]:
    """The next smaller sizes in whole GiB, where an amount of memory was requested."""
    device = job.device
    sizes = {profile.memory_mib // 1_024 * 1_024 for profile in _plain(boards, device)}
    for mib in sorted((size for size in sizes if 0 < size < device.memory_mib), reverse=True)[:4]:
        message = make_message("instead.less_memory", memory=memory_words(mib))
        changed = replace(device, memory_mib=mib)
        yield _device(AlternativeKind.PROFILE, message, job, changed)


def _fewer(job: WaitingJob) -> Iterator[tuple[Alternative, WaitingJob]]:
    for replicas in _halves(job.replicas):
        changed = replace(job, replicas=replicas, sizes=())
        message = make_message("instead.replicas", replicas=replicas)
        yield Alternative(AlternativeKind.REPLICAS, message, {"replicas": replicas}), changed


def _halves(amount: int) -> list[int]:
    """Half of it, half of that, and so on down to 1."""
    return [amount >> times for times in range(1, amount.bit_length())]


def _gigabytes(memory_mib: int) -> str:
    """With at most one decimal."""
    return f"{memory_mib / 1_024:.1f}".removesuffix(".0") + " GB"


def _profile_memory(device: DeviceRequest, boards: list[Board]) -> int:
    """The smallest memory, in MiB, of the requested profile; 0 if none was requested."""
    found = [p.memory_mib for b in boards if device.mig and (p := b.profile(device.mig))]
    return min(found, default=0)


def _size(profile: Profile) -> tuple[int, int]:
    return profile.memory_mib, profile.compute_slices


def _named(profile: str) -> tuple[int, int]:
    """The size in the name of a profile, such as "2g.35gb", that no board here has."""
    match = re.fullmatch(r"([0-9]{1,3})g\.([0-9]{1,5})gb.*", profile)
    return (int(match[2]) * 1_024, int(match[1])) if match else (0, 0)


def _plain(boards: list[Board], device: DeviceRequest) -> list[Profile]:
    """The profiles of the boards that the request allows, one per name."""
    allowed = [b for b in boards if not device.models or {b.key, b.model} & set(device.models)]
    found = {p.name: p for b in allowed for p in b.profiles if not p.has_media_extensions}
    return list(found.values())
