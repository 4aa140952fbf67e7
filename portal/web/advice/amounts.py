"""Amounts as the advisor's page writes them."""

from portal.web.wording.labels import NBSP

GIB = 1 << 30


def gib(size: float) -> str:
    """ "33.4 GiB"; small sizes with two decimals."""
    amount = size / GIB
    return f"{amount:,.1f}{NBSP}GiB" if amount >= 1 else f"{amount:.2f}{NBSP}GiB"


def digits(amount: float) -> str:
    """ "340", "12", "0.43", "0.0052": two digits at least, without an exponent."""
    if amount >= 10:
        return f"{amount:,.0f}"
    text = f"{amount:.2g}"
    return text if "e" not in text else f"{amount:.6f}"


def money(amount: float, currency: str) -> str:
    """ "1,240 EUR", "3.42 EUR", "0.0071 EUR"."""
    number = f"{amount:,.0f}" if amount >= 1_000 else f"{amount:,.2f}"
    return f"{number if amount >= 0.1 or not amount else digits(amount)}{NBSP}{currency}"
