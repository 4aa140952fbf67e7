"""What can be asked for, as cards by memory: slices, whole GPUs of a model, and MPS shares."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from django.db.models import F
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.boards import Board, Profile
from portal.accounts.models import User
from portal.accounts.selectors import projects_to_work_in
from portal.availability.offers import BoardAvailability, board_availability
from portal.inventory.boards import cluster_boards
from portal.inventory.models import Gpu
from portal.web.request.form import BY_MEMORY, MPS_SHARE, WHOLE_GPUS, amount_model
from portal.web.request.form_conditions import split_words
from portal.web.wording.labels import NBSP, gigabytes
from scheduler.core.model.states import GpuHealth, NodeStatus

CELLS_WIDTH = 158
WHOLE_CELLS = 8
LAST_SORT_KEY = 10**9
# GPUs from which on the planner takes a tenth of a second over all cards.
LARGE_CLUSTER_GPUS = 2_000


@dataclass(slots=True)
class Card:
    """An amount of GPU to choose. `served`: what serves it; `profile`: in nvidia-smi's words, of a
    slice only. `cells`: which of the board's memory slices it is. `carvable` of a whole GPU or a
    share is how many are free; `total`: how many there could be if nothing else were. `models`: of
    GPU. Not `is_counted`: how many there are depends on what else is asked."""

    value: str
    size: str
    description: str = ""
    profile: str = ""
    cells: tuple[bool, ...] = ()
    sort_key: int = LAST_SORT_KEY
    ready: int = 0
    carvable: int = 0
    total: int = 0
    is_counted: bool = True
    models: list[str] = field(default_factory=list)

    @property
    def free(self) -> int:
        return self.ready + self.carvable

    @property
    def cell_shapes(self) -> list[tuple[float, float, bool]]:
        """x and width of each cell, and whether it is part of it."""
        pitch = CELLS_WIDTH / max(1, len(self.cells))
        return [(round(i * pitch, 1), round(pitch - 2, 1), on) for i, on in enumerate(self.cells)]

    @property
    def availability(self) -> str:
        """How many could be had now."""
        counts = {name: f"{getattr(self, name):,}" for name in ("free", "total")}
        if not self.total:
            return _("none in service now")
        if not self.free:
            return _("none of %(total)s free") % counts
        if self.value == MPS_SHARE:
            return (
                ngettext(
                    "room on %(free)s of %(total)s GPU",
                    "room on %(free)s of %(total)s GPUs",
                    self.total,
                )
                % counts
            )
        return _("%(free)s of %(total)s free") % counts

    @property
    def slice_breakdown(self) -> str:
        """How many of the free slices stand ready, and how many are carved when they are needed."""
        counts = {"ready": f"{self.ready:,}", "carvable": f"{self.carvable:,}"}
        if not (self.profile and self.free):
            return ""
        if not self.carvable:
            return _("%(ready)s ready") % counts
        if not self.ready:
            return _("%(carvable)s to carve") % counts
        return _("%(ready)s ready, %(carvable)s to carve") % counts


@dataclass(frozen=True, slots=True)
class CardDeck:
    """`gpus` are in service; `uncounted` are faulted, or on nodes that take no work: no card counts
    them."""

    cards: tuple[Card, ...]
    gpus: int = 0
    unavailable_gpus: int = 0

    @property
    def is_large(self) -> bool:
        return self.gpus + self.unavailable_gpus >= LARGE_CLUSTER_GPUS

    @property
    def default_amount(self) -> str:
        """For a fresh form: the smallest slice, or what is smallest where there are none."""
        slices = (card.value for card in self.cards if card.profile)
        return next(slices, self.cards[0].value if self.cards else WHOLE_GPUS)

    @property
    def has_shares(self) -> bool:
        return self.has(MPS_SHARE)

    def has(self, value: str) -> bool:
        return any(card.value == value for card in self.cards)

    def normalized(self, values: Mapping[str, str]) -> dict[str, str]:
        """The form with the card that says the same: whole GPUs of one model have one of their
        own."""
        models = split_words(values["models"])
        if values["amount"] == WHOLE_GPUS and len(models) == 1:
            for card in self.cards:
                if amount_model(card.value) and models[0] in card.models:
                    return {**values, "amount": card.value, "models": ""}
        return dict(values)

    def with_amount(self, amount: str) -> "CardDeck":
        """With a card for what was asked for, also where no node here has it."""
        if not amount or self.has(amount):
            return self
        size = amount_model(amount) or amount
        asked = Card(amount, size, _("no node here has it"), is_counted=False)
        return replace(self, cards=(*self.cards, asked))


def cards_now(user: User) -> CardDeck:
    """Small to large, then shares, then by memory. Nothing here is counted as free on nodes that
    take no work."""
    stock = board_availability()
    cards = _carved_and_whole(stock)
    if shares := sum(of.shareable for of in stock):
        share = Card(MPS_SHARE, _("MPS share"), _("part of a GPU, not isolated"), total=shares)
        share.carvable = sum(of.unallocated_shareable for of in stock) + _joinable(user)
        share.cells = (True, False, False, False)
        cards.append(share)
    if cards:
        cards.append(Card(BY_MEMORY, _("By memory"), _("the cheapest kind that has enough")))
        cards[-1].is_counted = False
    in_service, out = sum(of.gpus for of in stock), sum(of.out_of_service for of in stock)
    return CardDeck(tuple(cards), in_service, out)


def all_amounts() -> list[str]:
    """The values of all cards there could be, without looking at what is free."""
    there = [BoardAvailability(board) for board in cluster_boards()]
    return [*(card.value for card in _carved_and_whole(there)), MPS_SHARE, BY_MEMORY]


def _carved_and_whole(stock: list[BoardAvailability]) -> list[Card]:
    return sorted([*_slices(stock), *_wholes(stock)], key=lambda card: card.sort_key)


def _slices(stock: Iterable[BoardAvailability]) -> list[Card]:
    """One for each profile, over all boards that have it. A slice that is all of its GPU is told as
    a whole GPU."""
    cards: dict[str, Card] = {}
    parts: dict[str, str] = {}
    for of in stock:
        for profile in of.board.profiles:
            if profile.has_media_extensions or profile.memory_slices == of.board.memory_slices:
                continue
            card = cards.setdefault(profile.name, _slice(of.board, profile))
            parts[profile.name] = f"{profile.compute_slices}/{of.board.compute_slices}"
            card.ready += of.idle_slices[profile.name]
            card.carvable += of.carvable[profile.name]
            card.total += of.max_slices[profile.name]
            if of.board.model not in card.models:
                card.models.append(of.board.model)
    for name, card in cards.items():
        said = {"part": parts[name], "model": _any_of(card.models)}
        card.description = _("%(part)s of %(model)s") % said
    return list(cards.values())


def _slice(board: Board, profile: Profile) -> Card:
    return Card(
        value=profile.name,
        size=gigabytes(profile.name),
        profile=profile.name,
        cells=tuple(i < profile.memory_slices for i in range(board.memory_slices)),
        sort_key=profile.memory_mib * 10 + profile.compute_slices,
    )


def _wholes(stock: list[BoardAvailability]) -> list[Card]:
    """One for each board; where there are several, one more for whichever comes first."""
    models = [of.board.model for of in stock]
    cards = []
    for of in stock:
        # What a request may name: the model, or the board where models have several.
        name = of.board.model if models.count(of.board.model) == 1 else of.board.key
        card = Card(f"{WHOLE_GPUS}:{name}", _size(of.board), _("whole %(model)s") % {"model": name})
        card.sort_key = of.board.memory_mib * 10 + 9
        card.models = [name, of.board.key]
        card.carvable, card.total = of.unallocated, of.gpus
        card.cells = (True,) * WHOLE_CELLS
        cards.append(card)
    if len(cards) == 1:
        cards[0].value = WHOLE_GPUS
    elif cards:
        sizes = sorted(of.board.memory_mib // 1024 for of in stock)
        several = Card(WHOLE_GPUS, f"{sizes[0]}–{sizes[-1]}{NBSP}GiB", _("any whole GPU"))
        several.sort_key, several.cells = LAST_SORT_KEY - 1, (True,) * WHOLE_CELLS
        several.carvable, several.total = (
            sum(card.carvable for card in cards),
            sum(card.total for card in cards),
        )
        cards.append(several)
    return cards


def _size(board: Board) -> str:
    """In the vendor's own round words where a profile has them."""
    full = (p for p in board.profiles if p.memory_slices == board.memory_slices)
    found = next((p for p in full if not p.has_media_extensions), None)
    return gigabytes(found.name) if found else f"{board.memory_mib // 1024}{NBSP}GiB"


def _any_of(models: list[str]) -> str:
    """ "H100 or A100"."""
    if len(models) == 1:
        return models[0]
    said = {"first": ", ".join(models[:-1]), "last": models[-1]}
    return _("%(first)s or %(last)s") % said


def _joinable(user: User) -> int:
    """GPUs with room beside the shares of a project of the user."""
    mine = projects_to_work_in(user).values("pk")
    rows = Gpu.objects.filter(shared_by__in=mine, health=GpuHealth.OK, busy="")
    rows = rows.filter(shared_threads__lt=100, shared_memory_mib__lt=F("memory_mib"))
    on = rows.filter(node__status=NodeStatus.ONLINE, node__schedulable=True)
    facts = on.values_list("node__facts__blocks", "node__facts__share_clients")
    return sum(bool(clients) and not blocks for blocks, clients in facts)
