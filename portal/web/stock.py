"""What can be asked for: every MIG profile that the inventory offers, and whole GPUs."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from agents.contract.boards import Board, Profile, boards
from agents.contract.geometry import Placement
from agents.contract.layouts import layouts
from portal.accounts.models import User
from portal.inventory.models import Slice
from portal.inventory.selectors import gpus, holders
from portal.web.words import NBSP, gigabytes
from scheduler.core.states import GpuHealth, NodeStatus

WHOLE = "gpus"
CELLS_WIDTH = 158


@dataclass(slots=True)
class Card:
    """An amount of GPU to choose. `cells`: which of the board's memory slices it is."""

    value: str
    size: str
    part: str
    cells: tuple[bool, ...]
    order: int
    ready: int = 0
    carvable: int = 0

    @property
    def drawn(self) -> list[tuple[float, float, bool]]:
        """x and width of each cell, and whether it is part of it."""
        pitch = CELLS_WIDTH / len(self.cells)
        return [(round(i * pitch, 1), round(pitch - 2, 1), on) for i, on in enumerate(self.cells)]

    @property
    def said(self) -> str:
        """How many could be had now."""
        counts = {"ready": self.ready, "carvable": self.carvable}
        if self.value == WHOLE:
            return _("%(carvable)s free now") % counts if self.carvable else _("none free now")
        if self.ready and self.carvable:
            return _("%(ready)s ready, %(carvable)s to carve") % counts
        if self.ready:
            return _("%(ready)s ready") % counts
        return _("%(carvable)s to carve") % counts if self.carvable else _("none free now")


def stock(user: User) -> list[Card]:
    """Small to large. What nodes that take no work have is not counted as free."""
    cards: dict[str, Card] = {}
    held = holders(user)
    whole = Card(WHOLE, "", "", (True,) * 8, order=10**9)
    for gpu in gpus():
        board = boards().get(gpu.board)
        live: list[Slice] = gpu.live_slices  # type: ignore[attr-defined]  # prefetched
        usable = (
            gpu.node.status == NodeStatus.ONLINE
            and gpu.node.schedulable
            and gpu.health == GpuHealth.OK
        )
        whole.size = f"{gpu.memory_mib // 1024}{NBSP}GiB"
        whole.carvable += usable and not any(piece.pk in held for piece in live)
        if board is None:
            continue
        taken = [Placement(piece.start, piece.size, piece.profile) for piece in live]
        is_whole = any(not place.profile for place in taken)
        for profile in board.profiles:
            if profile.has_media_extensions:
                continue
            if profile.memory_slices == board.memory_slices:
                whole.size = gigabytes(profile.name)
            card = cards.setdefault(profile.name, _card(board, profile))
            if usable and not is_whole:
                card.ready += sum(p.profile == profile.name and p.pk not in held for p in live)
                card.carvable += layouts(board).beside(taken).most[profile.name]
    offered = sorted(cards.values(), key=lambda card: card.order)
    return [*offered, whole] if whole.size else offered


def _card(board: Board, profile: Profile) -> Card:
    return Card(
        value=profile.name,
        size=gigabytes(profile.name),
        part=f"{profile.compute_slices}/{board.compute_slices} {board.model}",
        cells=tuple(i < profile.memory_slices for i in range(board.memory_slices)),
        order=profile.memory_mib * 10 + profile.compute_slices,
    )
