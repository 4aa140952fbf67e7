"""The first question of the request form, as cards: how much GPU memory?

availability ─▶ memory_sizes ─▶ cards: "at least 16 GB", another size, whole GPUs
            └─▶ device_kinds ─▶ rows of the second step: a model, a slice, an MPS share
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.utils.translation import gettext as _

from agents.contract.boards import Board
from portal.accounts.models import User
from portal.availability.selectors import availability_for
from portal.inventory.boards import cluster_boards
from portal.web.request.device_kinds import DeviceRow, device_rows, unknown_row
from portal.web.request.form import (
    BY_MEMORY,
    WHOLE_GPUS,
    amount_model,
    memory_amount,
    memory_of,
)
from portal.web.request.form_fields import split_words
from portal.web.request.memory_sizes import (
    COMMON_MODEL_GB,
    MemorySize,
    memory_sizes,
    recommended_size,
)
from portal.web.wording.capacity import counted_at
from portal.web.wording.labels import NBSP
from scheduler.core.availability.counts import MPS_SHARE as MPS
from scheduler.core.availability.counts import WHOLE_GPU, Availability, DeviceCount
from scheduler.core.request.quantities import read_memory_mib
from scheduler.core.request_fields import BY_NAME

CELLS_WIDTH, CELLS = 158, 8
# From this size on, the planner needs a tenth of a second to answer all cards.
LARGE_CLUSTER_GPUS = 2_000
HARDWARE = str(BY_NAME["device.isolation"].default)


@dataclass(slots=True)
class Card:
    """An amount of GPU to choose."""

    value: str
    """Of the form's field `amount`."""
    size: str
    description: str
    is_minimum_size: bool = False
    """Its size is the least that the device has."""
    part: float = 0.0
    """Of the GPU, that the drawing fills."""
    count: DeviceCount = field(default_factory=DeviceCount)
    """How many more could start now."""
    is_counted: bool = True
    """False: the number depends on the other fields of the form."""
    recommended: str = ""
    """Why it is the one to begin with; empty for the others."""

    @property
    def cell_shapes(self) -> list[tuple[float, float, bool]]:
        """x and width of each cell, and whether it belongs to the card."""
        pitch = CELLS_WIDTH / CELLS
        filled = max(1, round(self.part * CELLS)) if self.part else 0
        return [(round(i * pitch, 1), round(pitch - 2, 1), i < filled) for i in range(CELLS)]

    @property
    def stock(self) -> str:
        """How many are free. Nothing if none is: when one could start stands beside it."""
        if not self.is_counted:
            return ""
        if not self.count.total:
            return _("none in service")
        free = self.count.available
        return _("%(free)s free") % {"free": f"{free:,}"} if free else ""


@dataclass(frozen=True, slots=True)
class RequestCards:
    """The cards and the second step, in the order of the page."""

    cards: tuple[Card, ...] = ()
    rows: tuple[DeviceRow, ...] = ()
    models: tuple[str, ...] = ()
    """Of GPUs here, by name."""
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
        """The recommended card, or the first."""
        best = (card.value for card in self.cards if card.recommended)
        return next(best, self.cards[0].value if self.cards else WHOLE_GPUS)

    @property
    def has_shares(self) -> bool:
        return any(row.is_share for row in self.rows)

    def has(self, value: str) -> bool:
        is_card = any(card.value == value for card in self.cards)
        return is_card or self.is_second_step(value)

    def is_second_step(self, amount: str) -> bool:
        """Whether the amount is chosen by model or slice, not by a card."""
        return any(row.value == amount for row in self.rows)

    def normalized(self, values: Mapping[str, str]) -> dict[str, str]:
        """The same request with the most specific card or row."""
        amount, models = values["amount"], split_words(values["models"])
        if amount == WHOLE_GPUS and len(models) == 1:
            for row in self.rows:
                if amount_model(row.value) and models[0] in row.names:
                    return {**values, "amount": row.value, "models": ""}
        if amount == BY_MEMORY and values["isolation"] in ("", HARDWARE):
            for card in self.cards:
                if _same_memory(memory_of(card.value), values["device_memory"]):
                    return {**values, "amount": card.value}
        if (size := memory_of(amount)) and not self.has(amount):
            # A card of another day: its size is typed.
            return {**values, "amount": BY_MEMORY, "device_memory": size}
        return dict(values)

    def with_amount(self, amount: str) -> "RequestCards":
        """With a row for `amount`, even if no node has it."""
        if not amount or self.has(amount):
            return self
        return replace(self, rows=(*self.rows, unknown_row(amount)))


def cards_now(user: User) -> RequestCards:
    """What is free now. A GPU on a node that takes no work is not free."""
    cluster = availability_for(user)
    stock = [(cluster.board_table[key], counts) for key, counts in sorted(cluster.boards.items())]
    total = cluster.total
    return RequestCards(
        cards=_cards(stock),
        rows=device_rows(stock, total.of(MPS)),
        models=tuple(dict.fromkeys(board.model for board, _counts in stock)),
        gpus=total.in_service,
        unavailable_gpus=total.out_of_service + total.on_unavailable_nodes,
        counted_at=counted_at(cluster),
    )


def all_amounts() -> list[str]:
    """The value of every card, without counting what is free."""
    return [card.value for card in _cards([(board, Availability()) for board in cluster_boards()])]


def _cards(stock: list[tuple[Board, Availability]]) -> tuple[Card, ...]:
    """Memory from small to large, another amount of it, and whole GPUs: at most eight."""
    sizes = memory_sizes(stock)
    if not sizes:
        return ()
    best = recommended_size(sizes)
    cards = [_memory_card(size) for size in sizes]
    for card, size in zip(cards, sizes, strict=True):
        card.recommended = _reason(size) if size is best else ""
    other = Card(BY_MEMORY, _("Another size"), _("type how much"), is_counted=False)
    whole = Card(WHOLE_GPUS, _("Whole GPUs"), _("one or more, of any model"), part=1)
    for _board, counts in stock:
        whole.count.add(counts.of(WHOLE_GPU))
    if len(stock) == 1:
        whole.description = _("one or more %(model)s") % {"model": stock[0][0].model}
    return (*cards, other, whole)


def _memory_card(size: MemorySize) -> Card:
    words = {"part": str(size.part), "model": size.board.model}
    text = _("such as %(part)s of one %(model)s") if size.part < 1 else _("such as one %(model)s")
    return Card(
        value=memory_amount(f"{size.gb}GiB"),
        size=f"{size.gb}{NBSP}GB",
        is_minimum_size=True,
        description=text % words,
        part=float(size.part),
        count=size.count,
    )


def _reason(size: MemorySize) -> str:
    if size.gb < COMMON_MODEL_GB:
        return _("Recommended: the most memory here")
    return _("Recommended: enough for a model of 7 billion parameters (16-bit)")


def _same_memory(one: str, other: str) -> bool:
    try:
        return read_memory_mib(one) == read_memory_mib(other)
    except ValueError:
        return False
