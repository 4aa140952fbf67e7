"""The scalars of a TensorBoard event file as charts."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from portal.files.models import StoredFile
from portal.files.receiving import OBJECT_BYTES
from portal.files.scalar_events import EventsProblem, ScalarSeries, scalar_events
from portal.storage.ranges import range_pieces
from portal.web.series_chart import SeriesChart, metric_text, series_chart

# In the names that TensorBoard's writers give to their files.
EVENTS_NAME = ".tfevents."
MAX_CHARTS = 24
# What is read of a file, and how long a page may take for it.
READ_BYTES, READ_SECONDS = 16 << 20, 2.0
PROBLEMS: dict[EventsProblem, str | Promise] = {
    EventsProblem.DAMAGED: _("The file is damaged: what comes before the damage is shown."),
    EventsProblem.ENDS_EARLY: _(
        "The file ends within a record, as when its job was stopped while it wrote."
    ),
    EventsProblem.TOO_LARGE: _("The file is large: only its beginning is drawn."),
}


@dataclass(frozen=True, slots=True)
class ScalarChart:
    tag: str
    chart: SeriesChart
    last: str
    step: int


@dataclass(frozen=True, slots=True)
class ScalarPreview:
    charts: list[ScalarChart]
    omitted: int
    """Tags without a chart of their own."""
    not_finite: int
    problem: str | Promise


def has_events_name(path: str) -> bool:
    return EVENTS_NAME in path.rpartition("/")[2]


def scalar_preview(file: StoredFile) -> ScalarPreview:
    """Raises StoreError."""
    size = min(file.size, READ_BYTES)
    pieces = range_pieces(file.stream, 0, size, OBJECT_BYTES)
    found = scalar_events(pieces, is_cut=size < file.size, seconds=READ_SECONDS)
    rows = list(found.series.items())
    charts = [chart for tag, series in rows[:MAX_CHARTS] if (chart := _chart(tag, series))]
    omitted = len(rows) - len(charts) + len(found.omitted_tags)
    problem = PROBLEMS[found.problem] if found.problem else ""
    return ScalarPreview(charts, omitted, found.not_finite, problem)


def _chart(tag: str, series: ScalarSeries) -> ScalarChart | None:
    points = series.by_step()
    chart = series_chart([(tag, points)])
    if chart is None:
        return None
    step, value = points[-1]
    return ScalarChart(tag, chart, metric_text(value), step)
