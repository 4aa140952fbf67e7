"""GPU-hours over time as an SVG bar chart: sizes are attributes, colours are classes."""

from dataclasses import dataclass
from datetime import date, timedelta

from django.utils.translation import gettext as _

from portal.usage.rounding import UNIT_SECONDS_PER_GPU_HOUR, format_gpu_hours, short_gpu_hours
from portal.web.wording.times import date_text

WIDTH, HEIGHT, LEFT, TOP, FOOT = 1184, 176, 48, 12, 22
# Approximate width of a label under a bar.
LABEL = 74


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    title: str
    label: str = ""
    middle: float = 0


@dataclass(frozen=True, slots=True)
class Tick:
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Bars:
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    # The same as a table: days and GPU-hours.
    rows: tuple[tuple[str, str], ...]
    sentence: str
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT


def usage_bars(days: list[date], used: list[int]) -> Bars:
    """The chart of `used` unit-seconds per bar.

    `days` are the first day of each bar and the day after the last, as
    `portal.usage.window.bar_edges` returns them.
    """
    peak = max(used, default=0)
    top, step = _scale(peak)
    floor, tall = HEIGHT - FOOT, HEIGHT - FOOT - TOP
    pitch = (WIDTH - LEFT) / max(1, len(used))
    every = max(1, -(-LABEL // max(1, int(pitch))))
    bars, rows = [], []
    for number, units in enumerate(used):
        height = tall * units / top
        when = _when(days[number], days[number + 1])
        x = LEFT + number * pitch
        bars.append(
            Bar(
                x=round(x + pitch * 0.14, 1),
                y=round(floor - height, 1),
                width=round(pitch * 0.72, 1),
                height=round(height, 1),
                title=_("%(when)s: %(hours)s GPU-hours")
                % {"when": when, "hours": format_gpu_hours(units)},
                label=date_text(days[number]) if number % every == 0 else "",
                middle=round(x + pitch / 2, 1),
            )
        )
        rows.append((when, format_gpu_hours(units)))
    ticks = tuple(
        Tick(round(floor - tall * at / top, 1), short_gpu_hours(at))
        for at in range(0, top + 1, step)
    )
    sentence = _("No GPU-hours in this period")
    if peak:
        busiest = _when(days[used.index(peak)], days[used.index(peak) + 1])
        names = {"when": busiest, "hours": format_gpu_hours(peak)}
        sentence = _("GPU-hours over time; the peak is %(when)s with %(hours)s") % names
    return Bars(tuple(bars), ticks, tuple(rows), sentence)


def _scale(peak: int) -> tuple[int, int]:
    """Height of the chart and distance of its grid lines in unit-seconds, both round in hours."""
    tenth = UNIT_SECONDS_PER_GPU_HOUR // 10
    step = tenth
    for factor in (1, 2, 5, *(n * 10**e for e in range(1, 10) for n in (1, 2, 5))):
        step = tenth * factor
        if step * 4 >= peak:
            break
    return step * max(1, -(-peak // step)), step


def _when(first: date, after: date) -> str:
    last = after - timedelta(days=1)
    if last == first:
        return date_text(first)
    return f"{date_text(first)} – {date_text(last)}"
