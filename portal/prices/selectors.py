"""Reads prices, and the devices that can have one."""

from collections.abc import Iterator
from dataclasses import dataclass

from agents.contract.boards import Board, Profile, known_boards
from portal.inventory.boards import cluster_boards
from portal.prices.models import DevicePrice, PriceList
from portal.prices.price_table import HourPrice, PriceTable, priced_profiles


@dataclass(frozen=True, slots=True)
class PricedDevice:
    """A kind of device, and what an hour of it costs."""

    board: Board
    profile: Profile | None
    """None for a whole GPU."""
    price: HourPrice | None
    """None where none is set."""

    @property
    def key(self) -> tuple[str, str]:
        return self.board.key, self.profile.name if self.profile else ""


def current_prices() -> PriceTable:
    """Two queries, or one while nothing has a price."""
    row = PriceList.objects.filter(pk=1).first()
    if row is None:
        return PriceTable()
    prices = DevicePrice.objects.values_list("board", "profile", "amount")
    amounts = {(board, profile): amount for board, profile, amount in prices}
    return PriceTable(row.currency, row.version, amounts)


def priced_devices(prices: PriceTable) -> list[PricedDevice]:
    """Every kind of device of the cluster, and those known ones that have a price without a node.
    The devices of a board follow each other, the whole GPU first."""
    return [
        PricedDevice(board, profile, prices.of(board, profile))
        for board in price_boards(prices)
        for profile in (None, *priced_profiles(board))
    ]


def price_boards(prices: PriceTable) -> list[Board]:
    """Boards of the cluster, and those of the table of boards that have a price."""
    found = {board.key: board for board in cluster_boards()}
    known = known_boards()
    for key, _profile in prices.amounts:
        if key in known:
            found.setdefault(key, known[key])
    return [found[key] for key in sorted(found)]


def price_keys() -> Iterator[tuple[str, str]]:
    """Of every device that may get a price: of the cluster's boards and of the known ones."""
    boards = known_boards() | {board.key: board for board in cluster_boards()}
    for board in boards.values():
        yield board.key, ""
        for profile in board.profiles:
            yield board.key, profile.name
