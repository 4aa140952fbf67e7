"""Pins the layout of a GPU: where the requested MIG slices go."""

from collections.abc import Sequence
from dataclasses import replace

from agents.contract.boards import Board
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from agents.contract.message import Message
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.snapshot import GpuView, SliceView
from scheduler.what_if.errors import ChangeRefusedError


def pin_layout(gpu: GpuView, profiles: Sequence[str]) -> GpuView:
    """The GPU with these slices, idle, ready and pinned. Raises ChangeRefusedError."""
    board = gpu_board(gpu)
    if not profiles:
        raise ChangeRefusedError("Name the profiles that the GPU keeps", "profiles")
    if not board.supports_mig:
        raise ChangeRefusedError(Message("%(model)s has no MIG", model=board.key), "gpu")
    for name in profiles:
        if board.profile(name) is None:
            unknown = Message(
                "%(model)s has no profile %(name)s. It has %(known)s",
                model=board.key,
                name=name,
                known=", ".join(profile.name for profile in board.profiles),
            )
            raise ChangeRefusedError(unknown, "profiles")
    places = _together(board, sorted(profiles, key=lambda name: -_size(board, name)), frozenset())
    if places is None:
        too_many = Message(
            "%(profiles)s do not fit on one %(model)s together",
            profiles=" + ".join(profiles),
            model=board.key,
        )
        raise ChangeRefusedError(too_many, "profiles")
    slices = tuple(
        SliceView(
            f"{gpu.id}:{place.profile}@{place.start}",
            *(SliceKind.MIG, place.profile, place.start, place.size),
            allocated=False,
            ready=True,
        )
        for place in sorted(places)
    )
    return replace(gpu, mode=GpuMode.MIG, pinned=True, slices=slices)


def _together(
    board: Board, profiles: Sequence[str], standing: frozenset[Placement]
) -> frozenset[Placement] | None:
    """Placements for all profiles beside `standing`, or None. A board has at most seven slices at
    once, so the search is short."""
    if not profiles:
        return standing
    if len(profiles) + len(standing) > board.memory_slices:
        return None
    for place in layout_table(board).free_beside(standing).by_profile[profiles[0]]:
        found = _together(board, profiles[1:], standing | {place})
        if found is not None:
            return found
    return None


def _size(board: Board, name: str) -> int:
    profile = board.profile(name)
    return profile.memory_slices if profile else 0
