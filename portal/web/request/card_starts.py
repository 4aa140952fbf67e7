"""When each card could start: the form as filled in, with the amount of that card.

All cards are tried against one snapshot of the queue.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.planning.estimates import estimate_as_dict
from portal.submission.dry_run import RequestStart, expected_starts
from portal.web.request.form import FilledForm, amount_model, parse_form
from portal.web.wording.reason_badges import reason_badge
from portal.web.wording.start_estimates import start_from_estimate
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.request import RequestLimits


@dataclass(frozen=True, slots=True)
class CardStart:
    """A few words, with colour class and icon."""

    cls: str
    icon: str
    text: str


def card_starts(
    user: User, form: FilledForm, amounts: Iterable[str], limits: RequestLimits
) -> dict[str, CardStart]:
    """By amount. A form with errors has no estimates."""
    if form.request is None:
        return dict.fromkeys(amounts, CardStart("wait", "clock", _("no estimate yet")))
    forms = {amount: parse_form(_with_amount(form.values, amount), limits) for amount in amounts}
    requests = {amount: each.request for amount, each in forms.items() if each.request}
    estimates = expected_starts(user=user, requests=list(requests.values()))
    starts = {amount: card_start(start) for amount, start in zip(requests, estimates, strict=True)}
    conflict = CardStart("warn", "info", _("conflicts with the rest of the form"))
    return {amount: starts.get(amount, conflict) for amount in forms}


def unknown_card_starts(amounts: Iterable[str]) -> dict[str, CardStart]:
    """For the first paint on a large cluster, where trying all cards takes a while."""
    return dict.fromkeys(amounts, CardStart("wait", "clock", _("select to see when")))


def _with_amount(values: Mapping[str, str], amount: str) -> dict[str, str]:
    """Models that were typed are kept, unless the amount names a model itself."""
    models = "" if amount_model(amount) else values["models"]
    return {**values, "amount": amount, "models": models}


def card_start(start: RequestStart) -> CardStart:
    """What the planner says of one request."""
    if start.at_once or start.code == ReasonCode.REPARTITION:
        return CardStart("ok", "play", _("starts now"))
    if start.estimate and start.estimate.is_published:
        when = start_from_estimate(estimate_as_dict(start.estimate)).text
        return CardStart("wait", "clock", _("starts %(when)s") % {"when": when})
    if not start.code:
        return CardStart("wait", "clock", _("not now; select to see when"))
    badge = reason_badge(start.code)
    if start.code == ReasonCode.IMPOSSIBLE:
        return CardStart(badge.cls, badge.icon, str(badge.word))
    text = _("no estimate yet: %(why)s") % {"why": str(badge.word).lower()}
    return CardStart("wait", "clock", text)
