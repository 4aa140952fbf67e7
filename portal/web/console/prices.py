"""What an hour of each kind of device costs: read and set on one page, with its history."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from portal.audit.selectors import audit_trail
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.prices.models import MAX_CURRENCY
from portal.prices.price_table import PriceSource, PriceTable
from portal.prices.selectors import PricedDevice, current_prices, priced_devices
from portal.prices.services import plain_amount, price_name, prices_set
from portal.web.console.access import platform_admins_only
from portal.web.console.history import audit_lines
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.labels import gigabytes
from portal.web.wording.messages import refusal_text

MAX_TYPED = 30
MAX_LINES = 20
MAX_DIGITS = 10


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One kind of device."""

    key: tuple[str, str]
    name: str
    """Of its field, and of the price in a refusal."""
    label: str
    profile: str
    text: str
    """In the field: what was typed, or the price that is set."""
    share: str
    """What it costs while its field is empty; empty where that is nothing."""
    error: str


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def prices(request: AuthenticatedHttpRequest) -> HttpResponse:
    now = current_prices()
    if request.method != "POST":
        return _page(request, now, {"currency": now.currency})
    names = ["currency", *(price_name(*each.key) for each in priced_devices(now))]
    typed = {name: request.POST.get(name, "").strip()[:MAX_TYPED] for name in names}
    amounts, errors = _read(now, typed)
    if errors:
        return _page(request, now, typed, errors, status=400)
    version = request.POST.get("version", "")
    is_number = version.isascii() and version.isdecimal() and len(version) < MAX_DIGITS
    try:
        prices_set(
            actor=request.user.username,
            currency=typed["currency"],
            amounts=amounts,
            version=int(version) if is_number else 0,
        )
    except Refused as refused:
        if refused.code == ErrorCode.VERSION_STALE:
            return _page(request, current_prices(), typed, is_stale=True, status=412)
        errors = {refused.field or "currency": refusal_text(refused)}
        return _page(request, now, typed, errors, status=refused.status)
    messages.success(request, _("Saved. The advisor uses these prices from now on"))
    return redirect("web:prices")


def _read(
    now: PriceTable, typed: Mapping[str, str]
) -> tuple[dict[tuple[str, str], Decimal], dict[str, str]]:
    """The prices, and an error for each field that has no number. What the page does not show, of
    boards that nobody knows now, stays as it is."""
    devices = priced_devices(now)
    shown = {device.key for device in devices}
    amounts = {key: amount for key, amount in now.amounts.items() if key not in shown}
    errors: dict[str, str] = {}
    for device in devices:
        name = price_name(*device.key)
        if not typed[name]:
            continue
        try:
            amounts[device.key] = Decimal(typed[name])
        except InvalidOperation:
            errors[name] = _("Write a number such as 2.50")
    return amounts, errors


def _page(
    request: AuthenticatedHttpRequest,
    now: PriceTable,
    typed: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
    *,
    is_stale: bool = False,
    status: int = 200,
) -> HttpResponse:
    errors = errors or {}
    context = {
        "rows": [_row(each, now, typed, errors) for each in priced_devices(now)],
        "currency": typed["currency"],
        "max_currency": MAX_CURRENCY,
        "version": now.version,
        "errors": errors,
        "is_stale": is_stale,
        "history": audit_lines(audit_trail().filter(noun="prices")[:MAX_LINES]),
    }
    return render(request, "web/console/prices.html", context, status=status)


def _row(
    device: PricedDevice, now: PriceTable, typed: Mapping[str, str], errors: Mapping[str, str]
) -> PriceRow:
    name, price = price_name(*device.key), device.price
    is_set = price is not None and price.source is PriceSource.ADMIN
    stored = plain_amount(price.amount) if price and is_set else ""
    words = {"size": gigabytes(device.profile.name) if device.profile else ""}
    share = ""
    if price and not is_set:
        share = f"{plain_amount(price.amount)} {now.currency}"
    return PriceRow(
        key=device.key,
        name=name,
        label=_("%(size)s slice") % words if device.profile else device.board.key,
        profile=device.profile.name if device.profile else "",
        text=typed.get(name, stored),
        share=share,
        error=errors.get(name, ""),
    )
