"""What can be asked for: every MIG profile that the inventory offers, and whole GPUs."""

from dataclasses import dataclass

from django.db.models import F
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.boards import Board, Profile
from portal.accounts.models import User
from portal.accounts.selectors import projects_to_work_in
from portal.inventory.digest import OfBoard, cluster_digest
from portal.inventory.models import Gpu
from portal.web.request_form import SHARE, WHOLE
from portal.web.words import NBSP, gigabytes
from scheduler.core.states import GpuHealth, NodeStatus

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
    whole = Card(WHOLE, "", "", (True,) * 8, order=10**9)
    share = Card(SHARE, _("MPS share"), _("part of a GPU"), (), order=10**9)
    for node in cluster_digest():
        for of in node.boards:
            sizes.setdefault(of.memory_mib // 1024, f"{of.memory_mib // 1024}{NBSP}GiB")
            whole.carvable += of.open * node.takes_work
            if node.share_clients:
                share.cells = (True, False, False, False)
                share.carvable += of.open * node.takes_work
            _count(cards, sizes, of, node.takes_work)
    whole.size = _sizes(sizes)
    if share.cells:
        share.carvable += _joinable(user)
    offered = sorted(cards.values(), key=lambda card: card.order)
    return offered + [whole] * bool(whole.size) + [share] * bool(share.cells)


def _count(cards: dict[str, Card], sizes: dict[int, str], of: OfBoard, usable: bool) -> None:
    """The slices of one board in one node."""
    for profile in of.board.profiles:
        if profile.has_media_extensions:
            continue
        if profile.memory_slices == of.board.memory_slices:
            sizes[of.memory_mib // 1024] = gigabytes(profile.name)
        card = cards.setdefault(profile.name, _card(of.board, profile))
        if usable:
            card.ready += of.made[profile.name]
            card.carvable += of.fits[profile.name]


def _joinable(user: User) -> int:
    """GPUs with room beside the shares of a project of the user."""
    mine = projects_to_work_in(user).values("pk")
    rows = Gpu.objects.filter(shared_by__in=mine, health=GpuHealth.OK, busy="")
    rows = rows.filter(shared_threads__lt=100, shared_memory_mib__lt=F("memory_mib"))
    on = rows.filter(node__status=NodeStatus.ONLINE, node__schedulable=True)
    facts = on.values_list("node__facts__blocks", "node__facts__share_clients")
    return sum(bool(clients) and not blocks for blocks, clients in facts)


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
