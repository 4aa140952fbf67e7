"""The cards of the request form: slices, whole GPUs of a model, MPS shares, and GPU memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.boards import Board, Profile
from agents.contract.documents import SliceKind
from portal.accounts.models import User
from portal.availability.selectors import availability_for
from portal.inventory.boards import cluster_boards
from portal.web.request.form import BY_MEMORY, MPS_SHARE, WHOLE_GPUS, amount_model
from portal.web.request.form_fields import split_words
from portal.web.wording.capacity import counted_at, device_breakdown
from portal.web.wording.labels import NBSP, gigabytes
from scheduler.core.availability.counts import MPS_SHARE as MPS
from scheduler.core.availability.counts import WHOLE_GPU, Availability, DeviceCount, DeviceKind

CELLS_WIDTH = 158
WHOLE_CELLS = 8
LAST_SORT_KEY = 10**9
# From this size on, the planner needs a tenth of a second to answer all cards.
LARGE_CLUSTER_GPUS = 2_000
Stock = list[tuple[Board, Availability]]


@dataclass(slots=True)
class Card:
    """An amount of GPU to choose."""

    value: str
    """Of the form's field `amount`."""
    size: str
    """Its GPU memory, in words."""
    description: str = ""
    """What provides it, such as "1/7 of H200"."""
    profile: str = ""
    """The MIG profile of a slice."""
    cells: tuple[bool, ...] = ()
    """The memory slices of the board, and which of them the card stands for."""
    sort_key: int = LAST_SORT_KEY
    count: DeviceCount = field(default_factory=DeviceCount)
    """How many more could start now; for shares, on how many GPUs."""
    is_counted: bool = True
    """False: the number depends on the other fields of the form."""
    models: list[str] = field(default_factory=list)

    @property
    def cell_shapes(self) -> list[tuple[float, float, bool]]:
        """x and width of each cell, and whether it belongs to the card."""
        pitch = CELLS_WIDTH / max(1, len(self.cells))
        return [(round(i * pitch, 1), round(pitch - 2, 1), on) for i, on in enumerate(self.cells)]

    @property
    def availability(self) -> str:
        """How many are free now."""
        counts = {"free": f"{self.count.available:,}", "total": f"{self.count.total:,}"}
        if not self.count.total:
            return _("none in service")
        if not self.count.available:
            return _("none of %(total)s free") % counts
        if self.value == MPS_SHARE:
            return (
                ngettext(
                    "room on %(free)s of %(total)s GPU",
                    "room on %(free)s of %(total)s GPUs",
                    self.count.total,
                )
                % counts
            )
        return _("%(free)s of %(total)s free") % counts

    @property
    def breakdown(self) -> str:
        """How many of the free devices exist, would be carved, or need idle slices deleted. Empty
        where it goes without saying."""
        is_plain = not self.profile and not self.count.recarvable
        return "" if is_plain else device_breakdown(self.count)


@dataclass(frozen=True, slots=True)
class RequestCards:
    """All cards, in the order of the page."""

    cards: tuple[Card, ...]
    gpus: int = 0
    """In service."""
    unavailable_gpus: int = 0
    """Faulted, or on nodes that take no work; not counted by any card."""
    counted_at: str = ""
    """A sentence, where something may have happened since."""

    @property
    def is_large(self) -> bool:
        return self.gpus + self.unavailable_gpus >= LARGE_CLUSTER_GPUS

    @property
    def default_amount(self) -> str:
        """The smallest slice, or the first card if there is no slice."""
        slices = (card.value for card in self.cards if card.profile)
        return next(slices, self.cards[0].value if self.cards else WHOLE_GPUS)

    @property
    def has_shares(self) -> bool:
        return self.has(MPS_SHARE)

    def has(self, value: str) -> bool:
        return any(card.value == value for card in self.cards)

    def normalized(self, values: Mapping[str, str]) -> dict[str, str]:
        """The same request with the most specific card: whole GPUs of one model have a card of
        their own."""
        models = split_words(values["models"])
        if values["amount"] == WHOLE_GPUS and len(models) == 1:
            for card in self.cards:
                if amount_model(card.value) and models[0] in card.models:
                    return {**values, "amount": card.value, "models": ""}
        return dict(values)

    def with_amount(self, amount: str) -> "RequestCards":
        """With a card for `amount`, even if no node has it."""
        if not amount or self.has(amount):
            return self
        size = amount_model(amount) or amount
        card = Card(amount, size, _("not available on any node"), is_counted=False)
        return replace(self, cards=(*self.cards, card))


def cards_now(user: User) -> RequestCards:
    """Slices and whole GPUs from small to large, then the MPS share, then "By memory". A GPU on a
    node that takes no work is not free."""
    cluster = availability_for(user)
    stock = [(cluster.board_table[key], counts) for key, counts in sorted(cluster.boards.items())]
    cards = _device_cards(stock)
    shares = cluster.total.of(MPS)
    if shares.total:
        share = Card(MPS_SHARE, _("MPS share"), _("part of a GPU, not isolated"), count=shares)
        share.cells = (True, False, False, False)
        cards.append(share)
    if cards:
        cards.append(Card(BY_MEMORY, _("By memory"), _("the cheapest device with enough")))
        cards[-1].is_counted = False
    total = cluster.total
    return RequestCards(
        tuple(cards),
        gpus=total.in_service,
        unavailable_gpus=total.out_of_service + total.on_unavailable_nodes,
        counted_at=counted_at(cluster),
    )


def all_amounts() -> list[str]:
    """The value of every possible card, without counting what is free."""
    boards = [(board, Availability()) for board in cluster_boards()]
    return [*(card.value for card in _device_cards(boards)), MPS_SHARE, BY_MEMORY]


def _device_cards(stock: Stock) -> list[Card]:
    return sorted([*_slice_cards(stock), *_gpu_cards(stock)], key=lambda card: card.sort_key)


def _slice_cards(stock: Stock) -> list[Card]:
    """One card for each profile, over all boards that have it. A slice as large as its GPU is left
    to the card of the whole GPU."""
    cards: dict[str, Card] = {}
    parts: dict[str, str] = {}
    for board, counts in stock:
        for profile in board.profiles:
            if profile.has_media_extensions or profile.memory_slices == board.memory_slices:
                continue
            card = cards.setdefault(profile.name, _slice_card(board, profile))
            parts[profile.name] = f"{profile.compute_slices}/{board.compute_slices}"
            card.count.add(counts.of(DeviceKind(SliceKind.MIG, profile.name)))
            if board.model not in card.models:
                card.models.append(board.model)
    for name, card in cards.items():
        names = {"part": parts[name], "model": _model_names(card.models)}
        card.description = _("%(part)s of %(model)s") % names
    return list(cards.values())


def _slice_card(board: Board, profile: Profile) -> Card:
    return Card(
        value=profile.name,
        size=gigabytes(profile.name),
        profile=profile.name,
        cells=tuple(i < profile.memory_slices for i in range(board.memory_slices)),
        sort_key=profile.memory_mib * 10 + profile.compute_slices,
    )


def _gpu_cards(stock: Stock) -> list[Card]:
    """One card for each board; with several boards, one more for any of them."""
    models = [board.model for board, _counts in stock]
    cards = []
    for board, counts in stock:
        # As a request names it: by the model, or by the board if the model has several.
        name = board.model if models.count(board.model) == 1 else board.key
        card = Card(f"{WHOLE_GPUS}:{name}", _size(board), _("whole %(model)s") % {"model": name})
        card.sort_key = board.memory_mib * 10 + 9
        card.models = [name, board.key]
        card.count.add(counts.of(WHOLE_GPU))
        card.cells = (True,) * WHOLE_CELLS
        cards.append(card)
    if len(cards) == 1:
        cards[0].value = WHOLE_GPUS
    elif cards:
        sizes = sorted(board.memory_mib // 1024 for board, _counts in stock)
        several = Card(WHOLE_GPUS, f"{sizes[0]}–{sizes[-1]}{NBSP}GiB", _("any whole GPU"))
        several.sort_key, several.cells = LAST_SORT_KEY - 1, (True,) * WHOLE_CELLS
        for card in cards:
            several.count.add(card.count)
        cards.append(several)
    return cards


def _size(board: Board) -> str:
    """The vendor's rounded size if a profile names it, else GiB."""
    full = (p for p in board.profiles if p.memory_slices == board.memory_slices)
    profile = next((p for p in full if not p.has_media_extensions), None)
    return gigabytes(profile.name) if profile else f"{board.memory_mib // 1024}{NBSP}GiB"


def _model_names(models: list[str]) -> str:
    """ "H100 or A100"."""
    if len(models) == 1:
        return models[0]
    names = {"first": ", ".join(models[:-1]), "last": models[-1]}
    return _("%(first)s or %(last)s") % names
