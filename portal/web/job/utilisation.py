"""Model FLOPs utilisation on the Metrics tab: measured beside expected, in words."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.advice.model_utilisation import ModelUtilisation
from portal.web.wording.labels import NBSP
from portal.web.wording.messages import message_text
from scheduler.advisor.utilisation import SOURCE

SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class ShownUtilisation:
    """Texts; empty where there is nothing to say."""

    tokens: str
    percent: str
    problem: str
    expected_tokens: str
    expected_percent: str
    expected_words: str
    """With which division and batch; or why nothing is expected."""
    reachable: str
    formula: str
    source: str


def shown_utilisation(utilisation: ModelUtilisation | None) -> ShownUtilisation | None:
    if utilisation is None:
        return None
    expected = utilisation.expected
    if expected:
        words = _("the fastest way that fits, with %(batch)s sequences a step: %(division)s") % {
            "batch": f"{expected.batch:,}",
            "division": expected.division,
        }
    else:
        words = message_text(utilisation.no_expectation) if utilisation.no_expectation else ""
    return ShownUtilisation(
        tokens=_number(utilisation.tokens_per_second),
        percent="" if utilisation.percent is None else _percent(utilisation.percent),
        problem=message_text(utilisation.problem) if utilisation.problem else "",
        expected_tokens=_number(expected.tokens_per_second) if expected else "",
        expected_percent=_percent(expected.percent) if expected else "",
        expected_words=words,
        reachable=_percent(utilisation.reachable_percent) if utilisation.reachable_percent else "",
        formula=_formula(utilisation),
        source=SOURCE,
    )


def _formula(found: ModelUtilisation) -> str:
    if not found.flops_each or not found.peak_flops or found.flops_source is None:
        return ""
    return _(
        "%(tokens)s tokens/s × %(flops)s FLOPs a token (%(source)s) ÷ %(peak)s FLOP/s of "
        "%(devices)s in 16 bits"
    ) % {
        "tokens": _number(found.tokens_per_second),
        "flops": _power(found.flops_each),
        "source": message_text(found.flops_source),
        "peak": _power(found.peak_flops),
        "devices": found.devices,
    }


def _number(value: float) -> str:
    """ "12,400", "0.52", "4.1×10²⁰"."""
    if value >= 1e12 or value < 1e-3:
        return _power(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _power(value: float) -> str:
    """ "5.4×10¹⁰"."""
    digits, exponent = f"{value:.2e}".split("e")
    sign = "⁻" if exponent.startswith("-") else ""
    return f"{float(digits):g}×10{sign}{exponent.lstrip('+-0').translate(SUPERSCRIPTS) or '⁰'}"


def _percent(value: float) -> str:
    return f"{value:.1f}{NBSP}%"
