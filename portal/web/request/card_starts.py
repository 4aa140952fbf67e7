"""When each card could start: the form as it is, with the amount of that card. The planner's word,
all of them in one look at its queue."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.planning.estimates import estimate_as_dict
from portal.submission.dry_run import ExpectedStart, expected_starts
from portal.web.request.form import FilledForm, amount_model, parse_form
from portal.web.wording.reason_badges import reason_badge
from portal.web.wording.start_estimates import start_from_estimate
from scheduler.core.model.reasons import ReasonCode


@dataclass(frozen=True, slots=True)
class CardStart:
    """In a few words, with colour and icon."""

    cls: str
    icon: str
    text: str


def card_starts(user: User, asked: FilledForm, amounts: Iterable[str]) -> dict[str, CardStart]:
    """By amount. Nothing is known while the form has an error; an amount that does not go with the
    rest of the form is told so."""
    if asked.request is None:
        return dict.fromkeys(amounts, CardStart("wait", "clock", _("no estimate yet")))
    values = asked.values
    forms = {amount: parse_form(_with(values, amount)) for amount in amounts}
    requests = {amount: form.request for amount, form in forms.items() if form.request}
    found = expected_starts(user=user, requests=list(requests.values()))
    starts = {amount: _told(start) for amount, start in zip(requests, found, strict=True)}
    apart = CardStart("warn", "info", _("not with the rest of this form"))
    return {amount: starts.get(amount, apart) for amount in forms}


def unknown_card_starts(amounts: Iterable[str]) -> dict[str, CardStart]:
    """For the first look at a large cluster, where the planner takes a while over all cards."""
    return dict.fromkeys(amounts, CardStart("wait", "clock", _("choose it to see when")))


def _with(values: Mapping[str, str], amount: str) -> dict[str, str]:
    """Models that were typed go with any amount but one that names its model."""
    models = "" if amount_model(amount) else values["models"]
    return {**values, "amount": amount, "models": models}


def _told(start: ExpectedStart) -> CardStart:
    if start.at_once or start.code == ReasonCode.REPARTITION:
        return CardStart("ok", "play", _("starts now"))
    if start.estimate and start.estimate.is_published:
        about = start_from_estimate(estimate_as_dict(start.estimate)).about
        return CardStart("wait", "clock", _("starts in about %(about)s") % {"about": about})
    if not start.code:
        return CardStart("wait", "clock", _("not now; choose it to see when"))
    badge = reason_badge(start.code)
    if start.code == ReasonCode.IMPOSSIBLE:
        return CardStart(badge.cls, badge.icon, str(badge.word))
    said = _("no estimate yet: %(why)s") % {"why": str(badge.word).lower()}
    return CardStart("wait", "clock", said)
