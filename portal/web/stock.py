"""What can be asked for: every MIG profile that the inventory offers, and whole GPUs."""

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.boards import Board, Profile
from agents.contract.geometry import Placement
from agents.contract.layouts import layouts
from portal.accounts.models import User
from portal.accounts.selectors import projects_to_work_in
from portal.inventory.boards import board_of
from portal.inventory.models import Slice
from portal.inventory.selectors import gpus, holders
from portal.web.health import takes_work
from portal.web.request_form import SHARE, WHOLE
from portal.web.words import NBSP, gigabytes
from scheduler.core.states import GpuHealth

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
    def profile(self) -> str:
        """Its name in nvidia-smi's words, of a slice only."""
        return "" if self.value in (WHOLE, SHARE) else self.value

    @property
    def said(self) -> str:
        """How many could be had now."""
        counts = {"ready": self.ready, "carvable": self.carvable}
        if self.value == WHOLE:
            return _("%(carvable)s free now") % counts if self.carvable else _("none free now")
        if self.value == SHARE:
            found = ngettext("room on %(carvable)s GPU", "room on %(carvable)s GPUs", self.carvable)
            return found % counts if self.carvable else _("none free now")
        if self.ready and self.carvable:
            return _("%(ready)s ready, %(carvable)s to carve") % counts
        if self.ready:
            return _("%(ready)s ready") % counts
        return _("%(carvable)s to carve") % counts if self.carvable else _("none free now")


def stock(user: User) -> list[Card]:
    """Small to large, then shares. What nodes that take no work have is not counted as free."""
    cards: dict[str, Card] = {}
    sizes: dict[int, str] = {}
    held = holders(user)
    whole = Card(WHOLE, "", "", (True,) * 8, order=10**9)
    share = Card(SHARE, _("MPS share"), _("part of a GPU"), (), order=10**9)
    mine = set(projects_to_work_in(user).values_list("pk", flat=True))
    for gpu in gpus():
        board = board_of(gpu)
        live: list[Slice] = gpu.live_slices  # type: ignore[attr-defined]  # prefetched
        usable = takes_work(gpu.node) and gpu.health == GpuHealth.OK and not gpu.busy
        sizes.setdefault(gpu.memory_mib // 1024, f"{gpu.memory_mib // 1024}{NBSP}GiB")
        is_free = usable and not any(piece.pk in held for piece in live)
        whole.carvable += is_free
        if gpu.node.facts.get("share_clients"):
            share.cells = (True, False, False, False)
            has_room = gpu.shared_threads < 100 and gpu.shared_memory_mib < gpu.memory_mib
            joins = usable and gpu.shared_by_id in mine and has_room
            share.carvable += is_free or joins
        taken = [Placement(piece.start, piece.size, piece.profile) for piece in live]
        is_whole = any(not place.profile for place in taken)
        for profile in board.profiles:
            if profile.has_media_extensions:
                continue
            if profile.memory_slices == board.memory_slices:
                sizes[gpu.memory_mib // 1024] = gigabytes(profile.name)
            card = cards.setdefault(profile.name, _card(board, profile))
            if usable and not is_whole:
                card.ready += sum(p.profile == profile.name and p.pk not in held for p in live)
                card.carvable += layouts(board).beside(taken).most[profile.name]
    whole.size = _sizes(sizes)
    offered = sorted(cards.values(), key=lambda card: card.order)
    return offered + [whole] * bool(whole.size) + [share] * bool(share.cells)


def _sizes(found: dict[int, str]) -> str:
    """ "141 GB", or "44–140 GiB" where GPUs differ: a request may get any of them."""
    if len(found) < 2:
        return "".join(found.values())
    return f"{min(found)}–{max(found)}{NBSP}GiB"


def _card(board: Board, profile: Profile) -> Card:
    return Card(
        value=profile.name,
        size=gigabytes(profile.name),
        part=f"{profile.compute_slices}/{board.compute_slices} {board.model}",
        cells=tuple(i < profile.memory_slices for i in range(board.memory_slices)),
        order=profile.memory_mib * 10 + profile.compute_slices,
    )
