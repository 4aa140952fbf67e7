"""The outcome of a what-if in words and bars: the cluster as it is beside the changed one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.web.wording.labels import duration
from portal.web.wording.reason_badges import reason_badge

BAR_WIDTH = 160
# Recorded and replayed mean waits that differ by more than this factor make the result weak.
WEAK_FACTOR = 2
WAIT, COUNT, PART = "wait", "count", "part"


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One figure of both replays, with the lengths of its bars. `tone`: better is ok, worse bad."""

    label: str | Promise
    before: str
    after: str
    difference: str
    tone: str
    before_width: int
    after_width: int


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    headline: str
    # How far the replay can be believed, and whether that is little.
    accuracy: str
    is_weak: bool
    figures: list[ResultRow]
    by_project: list[ResultRow]
    held_for: list[ResultRow]


# Where a figure is in a replay, its words, its kind, and whether more of it is better, worse or
# neither.
FIGURES: tuple[tuple[str, str | Promise, str, int], ...] = (
    ("waits.mean_seconds", gettext_lazy("Wait, on average"), WAIT, -1),
    ("waits.p50_seconds", gettext_lazy("Wait, half of the jobs at most"), WAIT, -1),
    ("waits.p95_seconds", gettext_lazy("Wait, 95 of 100 jobs at most"), WAIT, -1),
    ("waits.longest_seconds", gettext_lazy("Wait, longest"), WAIT, -1),
    ("ended", gettext_lazy("Jobs that ended"), COUNT, 1),
    ("left_waiting", gettext_lazy("Still waiting at the end"), COUNT, -1),
    ("refused", gettext_lazy("Could never run there"), COUNT, -1),
    ("preemptions", gettext_lazy("Preemptions"), COUNT, -1),
    ("allocated", gettext_lazy("GPUs in use, on average"), PART, 0),
    ("gpus", gettext_lazy("GPUs there"), COUNT, 0),
)


def what_if_result(outcome: Mapping[str, Any]) -> WhatIfResult:
    """Of a stored `Comparison`."""
    one, other = outcome["baseline"], outcome["changed"]
    rows = [
        _row(label, kind, better, _at(one, place), _at(other, place))
        for place, label, kind, better in FIGURES
    ]
    accuracy, is_weak = _accuracy(outcome["accuracy"])
    waits = (one["waits_by_project"], other["waits_by_project"])
    return WhatIfResult(
        headline=_headline(one, other),
        accuracy=accuracy,
        is_weak=is_weak,
        figures=rows,
        by_project=[
            _row(key, WAIT, -1, *(side.get(key, {}).get("mean_seconds", 0) for side in waits))
            for key in sorted({*waits[0], *waits[1]})
        ],
        held_for=_held(one["held_for"], other["held_for"]),
    )


def _headline(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    before, after = one["waits"]["mean_seconds"], other["waits"]["mean_seconds"]
    words = {"before": duration(before), "after": duration(after), "n": one["jobs"]}
    if duration(before) == duration(after):
        return _("%(n)s jobs would have waited as long as they did: %(after)s on average") % words
    if after < before:
        text = _("%(n)s jobs would have waited less: %(after)s on average instead of %(before)s")
        return text % words
    text = _("%(n)s jobs would have waited longer: %(after)s on average instead of %(before)s")
    return text % words


def _accuracy(seen: Mapping[str, Any]) -> tuple[str, bool]:
    if not seen["jobs"]:
        return _("No job started in this time, so the replay cannot be checked."), True
    recorded, replayed = seen["recorded_mean_seconds"], seen["replayed_mean_seconds"]
    words = {"recorded": duration(recorded), "replayed": duration(replayed)}
    is_weak = max(recorded, replayed) > WEAK_FACTOR * max(1, min(recorded, replayed))
    if is_weak:
        text = _(
            "Take the differences with care: these jobs really waited %(recorded)s on average, and "
            "%(replayed)s in the replay of the cluster as it is."
        )
    else:
        text = _(
            "The replay of the cluster as it is comes close: %(replayed)s on average, really "
            "%(recorded)s."
        )
    return text % words, is_weak


def _held(one: Mapping[str, int], other: Mapping[str, int]) -> list[ResultRow]:
    codes: Iterable[str] = sorted({*one, *other}, key=lambda code: -one.get(code, 0))
    return [
        _row(reason_badge(code).word, WAIT, -1, one.get(code, 0), other.get(code, 0))
        for code in codes
    ]


def _row(label: str | Promise, kind: str, better: int, before: float, after: float) -> ResultRow:
    most = max(before, after) or 1
    difference = after - before
    sign = "+" if difference > 0 else "−" if difference < 0 else ""
    tone = "" if not difference or not better else "ok" if difference * better > 0 else "bad"
    return ResultRow(
        label=label,
        before=_text(kind, before),
        after=_text(kind, after),
        difference=sign + _text(kind, abs(difference)) if difference else "",
        tone=tone,
        before_width=round(BAR_WIDTH * before / most),
        after_width=round(BAR_WIDTH * after / most),
    )


def _text(kind: str, value: float) -> str:
    if kind == WAIT:
        return duration(value)
    return f"{100 * value:.1f} %" if kind == PART else f"{value:,.0f}"


def _at(replay: Mapping[str, Any], place: str) -> float:
    found: Any = replay
    for name in place.split("."):
        found = found[name]
    return float(found)
