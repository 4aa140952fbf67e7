"""The one rule of prices: what an hour of a GPU or slice costs. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from agents.contract.boards import Board, Profile
from agents.contract.units import UNITS_PER_GPU

# Of a currency: what prices are stored and rounded to.
SMALLEST = Decimal("0.000001")


class PriceSource(StrEnum):
    """Where a price comes from."""

    ADMIN = "admin"
    """Set by a platform admin for this very device."""
    SHARE = "share"
    """The slice's share of the price of its GPU."""


@dataclass(frozen=True, slots=True)
class HourPrice:
    """Of one device for an hour, in the currency of its table."""

    amount: Decimal
    source: PriceSource


@dataclass(frozen=True, slots=True)
class PriceTable:
    """All prices that are set."""

    currency: str = ""
    """As admins write it, such as "EUR"; empty while nothing has a price."""
    version: int = 1
    amounts: Mapping[tuple[str, str], Decimal] = field(default_factory=dict)
    """For an hour, by board key and name of the MIG profile; a whole GPU has the name ""."""

    def of(self, board: Board, profile: Profile | None = None) -> HourPrice | None:
        """Of a whole GPU without a profile. A slice without a price of its own costs its units of
        the GPU's price. None where no price is set."""
        own = self.amounts.get((board.key, profile.name if profile else ""))
        if own is not None:
            return HourPrice(own, PriceSource.ADMIN)
        whole = self.amounts.get((board.key, ""))
        if whole is None or profile is None:
            return None
        amount = whole * board.units(profile) / UNITS_PER_GPU
        return HourPrice(amount.quantize(SMALLEST), PriceSource.SHARE)


def priced_profiles(board: Board) -> Iterator[Profile]:
    """Those of its MIG profiles that a plain request gets and that are less than the GPU."""
    for profile in board.profiles:
        if not profile.has_media_extensions and profile.memory_slices < board.memory_slices:
            yield profile
