"""What an hour of a device costs: set, or a slice's share of its GPU's price."""

from decimal import Decimal

from agents.contract.boards import known_boards
from portal.prices.price_table import PriceSource, PriceTable, priced_profiles

H200 = known_boards()["H200-141GB"]
T4 = known_boards()["T4-16GB"]


def a_table(**amounts: str) -> PriceTable:
    """Of an H200, by profile; `whole` for the GPU."""
    keys = {("H200-141GB", "" if name == "whole" else name): text for name, text in amounts.items()}
    return PriceTable("EUR", 2, {key: Decimal(text) for key, text in keys.items()})


def test_a_slice_without_a_price_costs_the_larger_of_its_shares():
    table = a_table(whole="8")
    for name, share in (("1g.18gb", 1 / 7), ("2g.35gb", 2 / 7), ("3g.71gb", 1 / 2)):
        price = table.of(H200, H200.profile(name))
        assert price and price.source is PriceSource.SHARE
        assert abs(float(price.amount) - 8 * share) < 1e-5, name


def test_a_price_that_is_set_counts():
    table = a_table(whole="8", **{"1g.18gb": "2.25"})
    assert table.of(H200).amount == 8
    price = table.of(H200, H200.profile("1g.18gb"))
    assert (price.amount, price.source) == (Decimal("2.25"), PriceSource.ADMIN)


def test_nothing_is_guessed():
    assert PriceTable().of(H200) is None
    table = a_table(**{"1g.18gb": "2"})
    assert table.of(H200) is None and table.of(H200, H200.profile("2g.35gb")) is None
    assert a_table(whole="8").of(T4) is None


def test_every_share_is_positive_and_less_than_the_gpu():
    table = a_table(whole="7")
    for profile in priced_profiles(H200):
        assert 0 < table.of(H200, profile).amount < 7
