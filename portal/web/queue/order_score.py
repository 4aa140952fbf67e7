"""A job's place within its priority band as a bar: what the order counts, with its numbers.

Widths are on a logarithmic scale, since one queue holds a minute of a slice and a week of a rack.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from agents.contract.units import UNITS_PER_GPU
from portal.planning.order_factors import OrderFactors
from portal.web.wording.labels import duration, gpu_hours
from scheduler.core.model.policy import OrderMode

WIDTH = 90
# A bar of no length would look like a missing one.
MIN_WIDTH = 3.0
BAR = (
    '<div class="score" title="{0}"><b>{1}</b>'
    '<svg viewBox="0 0 90 8" role="img" aria-label="{0}">'
    '<rect class="f2" x="0" y="0" width="{2}" height="8" rx="1.5"/>{3}</svg></div>'
)
LATE = '<rect class="f1 late" x="{}" y="0" width="{}" height="8" rx="1.5"/>'


@dataclass(frozen=True, slots=True)
class OrderScore:
    """The shorter the bar, the earlier its turn."""

    label: str
    """The amount that counts."""
    counted: float
    """Width of what counts, of WIDTH."""
    forgiven: float
    """Width of what its wait has taken off."""
    sentence: str

    @property
    def bar(self) -> SafeString:
        """The amount and its bar. A page has dozens, and in a template each takes twice as long."""
        late = SafeString("")
        if self.forgiven:
            late = format_html(LATE, f"{self.counted:.1f}", f"{self.forgiven:.1f}")
        return format_html(BAR, self.sentence, self.label, f"{self.counted:.1f}", late)


class OrderScores:
    """The scores of some jobs by id, each relative to the largest of them. A score is made when it
    is asked for: most of a page's jobs may stand in groups. Of a queue by arrival there are none.
    """

    def __init__(self, factors: Mapping[int, OrderFactors], mode: OrderMode) -> None:
        self._factors = {} if mode is OrderMode.FIFO else factors
        self._mode = mode
        scaled = (_scaled(_full(each, mode), mode) for each in self._factors.values())
        self._top = max(scaled, default=0.0) or 1.0

    def __bool__(self) -> bool:
        return bool(self._factors)

    def of(self, job: int) -> OrderScore | None:
        factors = self._factors.get(job)
        return _score(factors, self._mode, self._top) if factors else None


def _score(factors: OrderFactors, mode: OrderMode, top: float) -> OrderScore:
    full, counted = _full(factors, mode), _counted(factors, mode)
    width = max(MIN_WIDTH, round(WIDTH * _scaled(counted, mode) / top, 1))
    whole = max(width, round(WIDTH * _scaled(full, mode) / top, 1))
    return OrderScore(_amount(counted, mode), width, whole - width, _sentence(factors, mode))


def _full(factors: OrderFactors, mode: OrderMode) -> int:
    return factors.limit_seconds if mode is OrderMode.SHORTEST else factors.work_unit_seconds


def _counted(factors: OrderFactors, mode: OrderMode) -> int:
    return factors.counted_unit_seconds if mode is OrderMode.FAIR else _full(factors, mode)


def _scaled(amount: int, mode: OrderMode) -> float:
    """By minutes, or by minutes of a whole GPU."""
    return log2(1 + amount / (60 if mode is OrderMode.SHORTEST else 60 * UNITS_PER_GPU))


def _amount(amount: int, mode: OrderMode) -> str:
    if mode is OrderMode.SHORTEST:
        return duration(amount)
    return _("%(hours)s GPU-h") % {"hours": gpu_hours(amount)}


def _sentence(factors: OrderFactors, mode: OrderMode) -> str:
    words = {
        "work": gpu_hours(factors.work_unit_seconds),
        "counted": gpu_hours(factors.counted_unit_seconds),
        "waited": duration(factors.waited_seconds),
        "limit": duration(factors.limit_seconds),
    }
    if mode is OrderMode.SHORTEST:
        return _("Time limit %(limit)s: the shortest goes first") % words
    if mode is OrderMode.SMALLEST:
        return _("At most %(work)s GPU-hours: the least goes first") % words
    return (
        _("At most %(work)s GPU-hours; after waiting %(waited)s they count as %(counted)s") % words
    )
