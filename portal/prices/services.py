"""Sets prices: all of them at once, so that a reader never sees half of a change."""

from collections.abc import Mapping
from decimal import Decimal

from django.db import transaction

from agents.contract.message import Message
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.prices.models import MAX_CURRENCY, DevicePrice, PriceList
from portal.prices.price_table import PriceTable
from portal.prices.selectors import current_prices, price_keys

MAX_AMOUNT = Decimal(1_000_000)
DECIMAL_PLACES = 6


def prices_set(
    *,
    actor: str,
    currency: str,
    amounts: Mapping[tuple[str, str], Decimal],
    version: int | None = None,
) -> PriceTable:
    """Replace the currency and all prices. `amounts` are for an hour, by board key and profile,
    which is empty for a whole GPU. `version`: the one that the caller has read; 1 before any
    change.

    Raises Refused(price_invalid, version_stale)."""
    currency = _valid_currency(currency, is_needed=bool(amounts))
    with transaction.atomic():
        PriceList.objects.get_or_create(pk=1)
        row = PriceList.objects.select_for_update().get(pk=1)
        if version is not None and version != row.version:
            sentence = "Somebody else changed the prices since you read them. Read them again"
            raise Refused(ErrorCode.VERSION_STALE, sentence)
        before = current_prices()
        _require_valid(before, amounts)
        row.currency, row.version = currency, row.version + 1
        row.save(update_fields=["currency", "version"])
        DevicePrice.objects.all().delete()
        DevicePrice.objects.bulk_create(
            DevicePrice(board=board, profile=profile, amount=amount)
            for (board, profile), amount in sorted(amounts.items())
        )
        after = current_prices()
        audit_record(
            actor=actor,
            action=AuditAction.PRICES_SET,
            noun="prices",
            noun_id=row.pk,
            before=_facts(before),
            after=_facts(after),
        )
    return after


def _valid_currency(text: str, *, is_needed: bool) -> str:
    text = " ".join(text.split())
    if len(text) > MAX_CURRENCY or not text.isprintable():
        sentence = Message("A currency has at most %(most)s characters", most=MAX_CURRENCY)
        raise Refused(ErrorCode.PRICE_INVALID, sentence, "currency")
    if is_needed and not text:
        missing = "Say which currency the prices are in, such as EUR"
        raise Refused(ErrorCode.PRICE_INVALID, missing, "currency")
    return text


def _require_valid(before: PriceTable, amounts: Mapping[tuple[str, str], Decimal]) -> None:
    """What has a price may keep one after its nodes are gone."""
    known = {*price_keys(), *before.amounts}
    for key, amount in amounts.items():
        name = price_name(*key)
        if key not in known:
            sentence = Message("%(device)s is no GPU or slice that this portal knows", device=name)
            raise Refused(ErrorCode.PRICE_INVALID, sentence, name)
        if not _is_valid(amount):
            sentence = Message(
                "A price is a number from 0 to %(most)s with at most %(places)s decimal places",
                most=f"{MAX_AMOUNT:,}",
                places=DECIMAL_PLACES,
            )
            raise Refused(ErrorCode.PRICE_INVALID, sentence, name)


def price_name(board: str, profile: str) -> str:
    """ "H200-141GB", "H200-141GB 1g.18gb": names the price in an error or an audit line."""
    return f"{board} {profile}".strip()


def _is_valid(amount: Decimal) -> bool:
    if not amount.is_finite() or not 0 <= amount <= MAX_AMOUNT:
        return False
    exponent = amount.normalize().as_tuple().exponent
    return isinstance(exponent, int) and -exponent <= DECIMAL_PLACES


def _facts(prices: PriceTable) -> dict[str, str]:
    facts = {price_name(*key): plain_amount(amount) for key, amount in prices.amounts.items()}
    return {"currency": prices.currency, **facts}


def plain_amount(amount: Decimal) -> str:
    """ "2.5", "120": no exponent, and no zeros at the end of decimal places."""
    return f"{amount.normalize():f}"
