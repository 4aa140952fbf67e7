"""The cards of the request form: slices, whole GPUs of a model, MPS shares, and GPU memory."""

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
# From this size on, the planner needs a tenth of a second to answer all cards.
LARGE_CLUSTER_GPUS = 2_000


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
    ready: int = 0
    """Idle slices that exist."""
    carvable: int = 0
    """Slices that could be carved; for whole GPUs and shares, how many are free."""
    total: int = 0
    """How many the cluster has room for when it is empty."""
    is_counted: bool = True
    """False: the number depends on the other fields of the form."""
    models: list[str] = field(default_factory=list)

    @property
    def free(self) -> int:
        return self.ready + self.carvable

    @property
    def cell_shapes(self) -> list[tuple[float, float, bool]]:
        """x and width of each cell, and whether it belongs to the card."""
        pitch = CELLS_WIDTH / max(1, len(self.cells))
        return [(round(i * pitch, 1), round(pitch - 2, 1), on) for i, on in enumerate(self.cells)]

    @property
    def availability(self) -> str:
        """How many are free now."""
        counts = {name: f"{getattr(self, name):,}" for name in ("free", "total")}
        if not self.total:
            return _("none in service")
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
        """How many of the free slices exist, and how many would be carved."""
        counts = {"ready": f"{self.ready:,}", "carvable": f"{self.carvable:,}"}
        if not (self.profile and self.free):
            return ""
        if not self.carvable:
            return _("%(ready)s ready") % counts
        if not self.ready:
            return _("%(carvable)s to carve") % counts
        return _("%(ready)s ready, %(carvable)s to carve") % counts


@dataclass(frozen=True, slots=True)
class RequestCards:
    """All cards, in the order of the page."""

    cards: tuple[Card, ...]
    gpus: int = 0
    """In service."""
    unavailable_gpus: int = 0
    """Faulted, or on nodes that take no work; not counted by any card."""

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
    stock = board_availability()
    cards = _device_cards(stock)
    if shares := sum(each.shareable for each in stock):
        share = Card(MPS_SHARE, _("MPS share"), _("part of a GPU, not isolated"), total=shares)
        share.carvable = sum(
            each.unallocated_shareable for each in stock
        ) + _gpus_with_room_for_shares(user)
        share.cells = (True, False, False, False)
        cards.append(share)
    if cards:
        cards.append(Card(BY_MEMORY, _("By memory"), _("the cheapest device with enough")))
        cards[-1].is_counted = False
    return RequestCards(
        tuple(cards),
        gpus=sum(each.gpus for each in stock),
        unavailable_gpus=sum(each.out_of_service for each in stock),
    )


def all_amounts() -> list[str]:
    """The value of every possible card, without counting what is free."""
    boards = [BoardAvailability(board) for board in cluster_boards()]
    return [*(card.value for card in _device_cards(boards)), MPS_SHARE, BY_MEMORY]


def _device_cards(stock: list[BoardAvailability]) -> list[Card]:
    return sorted([*_slice_cards(stock), *_gpu_cards(stock)], key=lambda card: card.sort_key)


def _slice_cards(stock: Iterable[BoardAvailability]) -> list[Card]:
    """One card for each profile, over all boards that have it. A slice as large as its GPU is left
    to the card of the whole GPU."""
    cards: dict[str, Card] = {}
    parts: dict[str, str] = {}
    for each in stock:
        for profile in each.board.profiles:
            if profile.has_media_extensions or profile.memory_slices == each.board.memory_slices:
                continue
            card = cards.setdefault(profile.name, _slice_card(each.board, profile))
            parts[profile.name] = f"{profile.compute_slices}/{each.board.compute_slices}"
            card.ready += each.idle_slices[profile.name]
            card.carvable += each.carvable[profile.name]
            card.total += each.max_slices[profile.name]
            if each.board.model not in card.models:
                card.models.append(each.board.model)
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


def _gpu_cards(stock: list[BoardAvailability]) -> list[Card]:
    """One card for each board; with several boards, one more for any of them."""
    models = [each.board.model for each in stock]
    cards = []
    for each in stock:
        # As a request names it: by the model, or by the board if the model has several.
        name = each.board.model if models.count(each.board.model) == 1 else each.board.key
        card = Card(
            f"{WHOLE_GPUS}:{name}", _size(each.board), _("whole %(model)s") % {"model": name}
        )
        card.sort_key = each.board.memory_mib * 10 + 9
        card.models = [name, each.board.key]
        card.carvable, card.total = each.unallocated, each.gpus
        card.cells = (True,) * WHOLE_CELLS
        cards.append(card)
    if len(cards) == 1:
        cards[0].value = WHOLE_GPUS
    elif cards:
        sizes = sorted(each.board.memory_mib // 1024 for each in stock)
        several = Card(WHOLE_GPUS, f"{sizes[0]}–{sizes[-1]}{NBSP}GiB", _("any whole GPU"))
        several.sort_key, several.cells = LAST_SORT_KEY - 1, (True,) * WHOLE_CELLS
        several.carvable, several.total = (
            sum(card.carvable for card in cards),
            sum(card.total for card in cards),
        )
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


def _gpus_with_room_for_shares(user: User) -> int:
    """GPUs that have room beside shares of one of the user's projects."""
    mine = projects_to_work_in(user).values("pk")
    rows = Gpu.objects.filter(sharing_project__in=mine, health=GpuHealth.OK, busy="")
    rows = rows.filter(shared_threads__lt=100, shared_memory_mib__lt=F("memory_mib"))
    online = rows.filter(node__status=NodeStatus.ONLINE, node__schedulable=True)
    facts = online.values_list("node__facts__blocks", "node__facts__share_clients")
    return sum(bool(clients) and not blocks for blocks, clients in facts)
