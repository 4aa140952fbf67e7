"""The picture of what frees up in the next hours: a row for each model, a bar for each span.

Pure geometry over `units_freeing`; lengths are SVG user units. The axis counts from now, so it says
the same in every time zone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from agents.contract.units import as_gpus
from portal.allocations.freeing import FreeingUnits
from portal.web.wording.labels import duration

SPANS = 12
HORIZONS = (timedelta(hours=6), timedelta(hours=24), timedelta(days=7))
MAX_MODELS = 6
LEFT, WIDTH = 150, 970
TOP, ROW, BAR = 22, 56, 30
# A bar is at least this high, so that one slice among hundreds of GPUs is still seen.
MIN_BAR = 3.0
RECT = '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>'
GROUP = '<g><title>{}</title>{}{}<text x="{}" y="{}" text-anchor="middle">{}</text></g>'


@dataclass(frozen=True, slots=True)
class FreeingBar:
    """What one span frees: the reader's own part stands on the ground, that of others on it."""

    x: float
    width: float
    y: float
    height: float
    own_y: float
    own_height: float
    label: str
    title: str

    @property
    def svg(self) -> SafeString:
        """The bar itself: a picture has dozens, and in a template each would take twice as long."""
        others = own = ""
        if self.height:
            others = RECT.format("other", self.x, self.y, self.width, self.height)
        if self.own_height:
            own = RECT.format("mine", self.x, self.own_y, self.width, self.own_height)
        middle, label_y = round(self.x + self.width / 2, 1), round(self.y - 4, 1)
        # All but the two texts are our own numbers and marks.
        texts = escape(self.title), escape(self.label)
        return SafeString(GROUP.format(texts[0], others, own, middle, label_y, texts[1]))


@dataclass(frozen=True, slots=True)
class FreeingRow:
    """One model."""

    model: str
    y: int
    sum: str
    bars: tuple[FreeingBar, ...]
    by_end: tuple[str, ...]
    """GPUs free by the end of each span of the table, this and earlier ones together."""

    @property
    def ground(self) -> int:
        return self.y + ROW - 8


@dataclass(frozen=True, slots=True)
class FreeingChart:
    horizon: str
    """How far the picture reaches, such as "6 h"."""
    rows: tuple[FreeingRow, ...]
    ticks: tuple[tuple[float, str], ...]
    """x and words of each line of the axis."""
    columns: tuple[str, ...]
    """Of the table: how long from now."""
    sentence: str
    omitted_models: int
    has_own: bool

    @property
    def height(self) -> int:
        return TOP + ROW * len(self.rows)


def horizon_for(first_end: datetime | None, now: datetime) -> timedelta | None:
    """The shortest one in which something ends; None if nothing does."""
    if first_end is None:
        return None
    return next((each for each in HORIZONS if first_end <= now + each), None)


def span_ends(now: datetime, horizon: timedelta) -> list[datetime]:
    return [now + horizon * n / SPANS for n in range(1, SPANS + 1)]


def freeing_chart(models: Sequence[FreeingUnits], horizon: timedelta) -> FreeingChart | None:
    """None if nothing frees up."""
    shown = [model for model in models if sum(model.total)][:MAX_MODELS]
    if not shown:
        return None
    top = max(units for model in shown for units in model.total)
    steps = [_wait(horizon * n / SPANS) for n in range(SPANS + 1)]
    rows = tuple(_row(model, nth, top, steps) for nth, model in enumerate(shown))
    length = _wait(horizon)
    parts = [f"{row.model}: {row.sum} GPU" for row in rows]
    sentence = _("At the latest, these become free in the next %(time)s. %(models)s") % {
        "time": length,
        "models": "; ".join(parts),
    }
    return FreeingChart(
        horizon=length,
        rows=rows,
        ticks=tuple(
            (LEFT + round(WIDTH * n / SPANS, 1), steps[n] if n else _("now"))
            for n in range(0, SPANS + 1, 2)
        ),
        columns=tuple(steps[2::2]),
        sentence=sentence,
        omitted_models=sum(1 for model in models if sum(model.total)) - len(shown),
        has_own=any(any(model.own) for model in shown),
    )


def _row(model: FreeingUnits, nth: int, top: int, steps: Sequence[str]) -> FreeingRow:
    y = TOP + ROW * nth
    ground = y + ROW - 8
    bars = tuple(
        _bar(n, units, own, ground, top, steps)
        for n, (units, own) in enumerate(zip(model.total, model.own, strict=True))
        if units
    )
    sums = list(accumulate(model.total))
    by_end = tuple(as_gpus(units, round_up=False) for units in sums[1::2])
    return FreeingRow(model.model, y, as_gpus(sums[-1], round_up=False), bars, by_end)


def _bar(n: int, units: int, own: int, ground: int, top: int, steps: Sequence[str]) -> FreeingBar:
    height = max(MIN_BAR, round(BAR * units / top, 1))
    own_height = round(height * own / units, 1)
    gpus = as_gpus(units, round_up=False)
    words = {"gpus": gpus, "from": steps[n], "to": steps[n + 1], "own": as_gpus(own)}
    title = _("%(gpus)s GPU in %(from)s to %(to)s") % words
    if own:
        title += ", " + _("%(own)s of it from your jobs") % words
    return FreeingBar(
        x=round(LEFT + WIDTH * n / SPANS + 3, 1),
        width=round(WIDTH / SPANS - 6, 1),
        y=round(ground - height, 1),
        height=round(height - own_height, 1),
        own_y=round(ground - own_height, 1),
        own_height=own_height,
        label=gpus,
        title=title,
    )


def _wait(span: timedelta) -> str:
    return duration(span.total_seconds())
