"""Metrics that jobs report: new points of several replicas of one node, in one call.

A job appends lines to the file that `TESSERA_METRICS_FILE` names, or prints them with a prefix. The
agent reads them, thins what is too much for one call, and says from where to where in the file or
in the log they were: a repeated call is harmless. A number travels as the text that Python writes
for it, so that no digit is lost.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from agents.contract.codec import omitted_by_default, rule
from agents.contract.protocol import PROTOCOL

JOB_METRICS_PATH = "/agent/v1/job-metrics"
# Names that one replica may report.
MAX_METRIC_NAMES = 100
# Points of one name in one call, and of all names of one replica.
MAX_SERIES_POINTS, MAX_BATCH_POINTS = 200, 2_000
# Replicas in one call, and the points of all of them.
MAX_METRICS_BATCHES, MAX_CALL_POINTS = 64, 4_000
# Room for 60 bytes a point, its name's part included.
MAX_METRICS_BODY_BYTES = 512 << 10
# A file is read up to this size.
MAX_METRICS_FILE_BYTES = 128 << 20
MAX_STEP = 2**53
# A line of the log that begins so reports metrics; the rest is a line as in the file.
LOG_LINE_PREFIX = "tessera-metric "

METRIC_NAME = r"\w[\w./-]{0,63}"
_NUMBER = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,3})?"
_OFFSET = rule(minimum=0, maximum=2**59)

MetricStep = Annotated[int, rule(minimum=0, maximum=MAX_STEP)]
MetricValue = Annotated[str, rule(max_length=32, pattern=_NUMBER)]


class SkipReason(StrEnum):
    """Why a line of the file, or a part of it, is no point. Pages explain it."""

    LINE_TOO_LONG = "line_too_long"
    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    """It is no JSON object."""
    NO_STEP = "no_step"
    """Its step is missing, or no whole number from 0 on."""
    NAME_REFUSED = "name_refused"
    NO_VALUE = "no_value"
    """A value is no number."""
    NOT_FINITE = "not_finite"
    """A value is NaN, infinite, or too large for a float."""
    TOO_MANY_NAMES = "too_many_names"
    FILE_TOO_LARGE = "file_too_large"
    """The rest of the file is not read."""
    NOT_A_FILE = "not_a_file"
    """A link, a pipe or a folder stands in its place."""


@dataclass(frozen=True, slots=True)
class SkippedCount:
    """How many lines were skipped for one reason."""

    why: SkipReason
    count: int = field(metadata=rule(minimum=1, maximum=2**53))


@dataclass(frozen=True, slots=True)
class SeriesPoints:
    """New points of one name, in the order in which the job wrote them.

    `count`, `low` and `high` are of all new points, also of those that were thinned out. The last
    point is always there.
    """

    name: str = field(metadata=rule(max_length=64, pattern=METRIC_NAME))
    count: int = field(metadata=rule(minimum=1, maximum=2**53))
    low: MetricValue
    high: MetricValue
    steps: tuple[MetricStep, ...] = field(metadata=rule(max_length=MAX_SERIES_POINTS))
    values: tuple[MetricValue, ...] = field(metadata=rule(max_length=MAX_SERIES_POINTS))


@dataclass(frozen=True, slots=True)
class MetricsBatch:
    """What the file or the log of one replica has had between two offsets.

    `part` counts how often the file began anew, because the job truncated or replaced it. `mark`
    is a checksum of the bytes before `end`: an agent that has restarted knows by it whether the
    file is still the same.

    A log never begins anew and has no mark. Between two batches of it lie lines of other kinds.
    """

    replica: str = field(metadata=rule(max_length=64))
    part: int = field(metadata=rule(minimum=0, maximum=2**31 - 1))
    offset: int = field(metadata=_OFFSET)
    end: int = field(metadata=_OFFSET)
    mark: int = field(metadata=rule(minimum=0, maximum=2**32 - 1))
    series: tuple[SeriesPoints, ...] = field(default=(), metadata=rule(max_length=MAX_METRIC_NAMES))
    skipped: tuple[SkippedCount, ...] = field(default=(), metadata=rule(max_length=16))


@dataclass(frozen=True, slots=True)
class JobMetricsRequest:
    """New points of replicas of the calling node, each replica once: of their files, or of their
    logs."""

    epoch: int = field(metadata=rule(minimum=1))
    batches: tuple[MetricsBatch, ...] = field(metadata=rule(max_length=MAX_METRICS_BATCHES))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))
    from_logs: bool = field(default=False, metadata=omitted_by_default())


@dataclass(frozen=True, slots=True)
class MetricsResult:
    """Up to where the portal has the file or log of one replica, or why it takes no more of it."""

    replica: str
    part: int = 0
    offset: int = 0
    mark: int = 0
    # Of the refusal; empty if the batch counts.
    code: str = ""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class JobMetricsResponse:
    """One result for each batch, in their order."""

    results: tuple[MetricsResult, ...]
