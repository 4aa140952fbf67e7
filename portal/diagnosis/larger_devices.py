"""The next larger device of a fleet than the one that a request asks for. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents.contract.boards import Board
from agents.contract.message import Message, verbatim
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.request.quantities import read_memory_mib, write_memory

GIB_MIB = 1 << 10
# A larger device has at least this part more: two boards of "80 GB" differ by a few MiB.
MIN_GAIN = 1.1


@dataclass(frozen=True, slots=True)
class RequestableFleet:
    """What could be asked for."""

    boards: tuple[Board, ...] = ()
    """Each kind once."""
    host_memory_mib: int = 0
    """Of the largest node; 0 if none is known."""
    max_time_limit_seconds: int = 0


@dataclass(frozen=True, slots=True)
class LargerDevice:
    device: dict[str, Any]
    """As a request has it."""
    label: Message


@dataclass(frozen=True, slots=True)
class _Offer:
    """One device of a board."""

    memory_mib: int
    units: int
    board: Board
    profile: str = ""
    """Empty for the whole GPU."""


def larger_device(
    device: Mapping[str, Any], fleet: RequestableFleet, needed_mib: int = 0
) -> LargerDevice | None:
    """The smallest device with more memory, and with `needed_mib` if that is known and there is
    one; None if the fleet has none. Processes on several GPUs stay on as many."""
    boards = _boards_of(device, fleet.boards)
    if "gpus" in device:
        offers = [_whole(board) for board in fleet.boards]
        memory_mib = min((board.memory_mib for board in boards), default=0)
        best = _smallest(offers, memory_mib, needed_mib)
        return _as_gpus(best, int(device["gpus"]), fleet) if best else None
    if "mig" in device:
        memory_mib = min(
            (p.memory_mib for board in boards if (p := board.profile(device["mig"]))), default=0
        )
        best = _smallest(_offers(boards), memory_mib, needed_mib)
        best = best or _smallest(_offers(fleet.boards), memory_mib, needed_mib)
        return _as_offer(best, device, fleet) if best else None
    return _more_memory(device, fleet, needed_mib)


def _more_memory(
    device: Mapping[str, Any], fleet: RequestableFleet, needed_mib: int
) -> LargerDevice | None:
    """Of a share or an amount: twice as much, at most that of the largest GPU."""
    is_share = "mps" in device
    memory_mib = read_memory_mib(device["mps"]["memory"] if is_share else device["memory"])
    largest_mib = max((board.memory_mib for board in fleet.boards), default=0)
    wanted_mib = max(2 * memory_mib, needed_mib)
    larger_mib = min(wanted_mib, largest_mib) // GIB_MIB * GIB_MIB
    if larger_mib < memory_mib * MIN_GAIN:
        return None
    text = write_memory(larger_mib)
    amount = {"mps": {**device["mps"], "memory": text}} if is_share else {"memory": text}
    label = Message("%(size)s of GPU memory", size=f"{larger_mib // GIB_MIB} GiB")
    return LargerDevice({**device, **amount}, label)


def _boards_of(device: Mapping[str, Any], boards: Iterable[Board]) -> tuple[Board, ...]:
    models = device.get("models") or ()
    named = [board for board in boards if board.model in models or board.key in models]
    return tuple(named if models else boards)


def _offers(boards: Iterable[Board]) -> Iterator[_Offer]:
    for board in boards:
        yield _whole(board)
        for profile in board.profiles:
            if not profile.has_media_extensions:
                units = board.units(profile)
                yield _Offer(profile.memory_mib, units, board, profile.name)


def _whole(board: Board) -> _Offer:
    return _Offer(board.memory_mib, UNITS_PER_GPU, board)


def _smallest(offers: Iterable[_Offer], memory_mib: int, needed_mib: int) -> _Offer | None:
    """Among those that are certainly large enough, else the largest of those that are larger."""
    larger = [offer for offer in offers if offer.memory_mib >= memory_mib * MIN_GAIN]
    if not memory_mib or not larger:
        return None
    enough = [offer for offer in larger if offer.memory_mib >= needed_mib]
    if enough:
        return min(enough, key=lambda o: (o.memory_mib, o.units, o.board.key, o.profile))
    return max(larger, key=lambda o: (o.memory_mib, -o.units, o.board.key))


def _as_offer(offer: _Offer, device: Mapping[str, Any], fleet: RequestableFleet) -> LargerDevice:
    if not offer.profile:
        return _as_gpus(offer, 1, fleet)
    size = offer.profile.partition(".")[2].partition("gb")[0]
    models = {"models": [_name(offer.board, fleet)]} if device.get("models") else {}
    return LargerDevice({"mig": offer.profile, **models}, verbatim(f"{size} GB"))


def _as_gpus(offer: _Offer, count: int, fleet: RequestableFleet) -> LargerDevice:
    name = _name(offer.board, fleet)
    size = f"{name} ({round(offer.memory_mib / GIB_MIB)} GiB)"
    label = Message("%(count)s × %(size)s", count=count, size=size) if count > 1 else verbatim(size)
    return LargerDevice({"gpus": count, "models": [name]}, label)


def _name(board: Board, fleet: RequestableFleet) -> str:
    """The model, or the board's key where the fleet has two sizes of the model."""
    sizes = [each for each in fleet.boards if each.model == board.model]
    return board.key if len(sizes) > 1 else board.model
