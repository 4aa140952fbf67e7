"""Which ranks of a running gang are stragglers: the one rule, and its sentences. Pure.

A gang that trains in step waits in every collective for its slowest rank, and a GPU that waits in
NCCL counts as busy. So the rank that the others wait for is the one whose own GPU is *less* active:
its processor, its disk or its network is behind. Ranks that do not wait for each other are told
apart by the steps that they report.

Medians are values that a rank has (`median_high`): of two, the one that is ahead.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high

from agents.contract.message import Message

# The last minutes that are compared, and of how many of them a device must be measured.
WINDOW_MINUTES = 5
MIN_MINUTES = 3
# A device lags if it is so many percentage points less active than the median.
LAG_PERCENT = 25
# A rank lags if it is behind the median step by so many reports, and by what the gang does in this
# time: reports of different nodes arrive at different times, so one is always ahead.
LAG_REPORTS = 2
LAG_SECONDS = 60


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """One device of a rank over the last minutes."""

    rank: int
    gpu: int
    """Its index on the node."""
    percent: float
    minutes: int
    """How many of the last minutes were measured."""


@dataclass(frozen=True, slots=True)
class RankStep:
    """How far a rank has come by the metric that is compared."""

    rank: int
    step: int
    count: int
    """How many points it has reported."""


def lags(
    devices: Sequence[MeasuredDevice],
    steps: Sequence[RankStep],
    *,
    metric: str,
    running_seconds: float,
) -> dict[int, list[Message]]:
    """Why each straggler is one, by rank. Empty for a gang of which fewer than two ranks can be
    compared. `metric`: whose steps these are. `running_seconds`: for how long the gang runs."""
    found: dict[int, list[Message]] = {}
    for rank, message in (*_inactive(devices), *_behind(steps, metric, running_seconds)):
        found.setdefault(rank, []).append(message)
    return found


def _inactive(devices: Iterable[MeasuredDevice]) -> Iterator[tuple[int, Message]]:
    """The least active device of each rank that lags."""
    measured = [device for device in devices if device.minutes >= MIN_MINUTES]
    least = _least_active(measured)
    if len(least) < 2:
        return
    median = median_high(device.percent for device in measured)
    for rank, device in sorted(least.items()):
        if median - device.percent >= LAG_PERCENT:
            yield (
                rank,
                Message(
                    "GPU %(gpu)s of rank %(rank)s was %(percent)s %% active over the last "
                    "%(minutes)s min, the median of its gang %(median)s %%",
                    gpu=device.gpu,
                    rank=rank,
                    percent=round(device.percent),
                    minutes=device.minutes,
                    median=round(median),
                ),
            )


def _least_active(devices: Iterable[MeasuredDevice]) -> Mapping[int, MeasuredDevice]:
    least: dict[int, MeasuredDevice] = {}
    for device in devices:
        before = least.get(device.rank)
        if before is None or device.percent < before.percent:
            least[device.rank] = device
    return least


def _behind(
    steps: Sequence[RankStep], metric: str, running_seconds: float
) -> Iterator[tuple[int, Message]]:
    if len(steps) < 2:
        return
    median = median_high(row.step for row in steps)
    allowed = _allowed_steps(steps, median, running_seconds)
    for row in sorted(steps, key=lambda row: row.rank):
        if median - row.step >= allowed:
            yield (
                row.rank,
                Message(
                    "rank %(rank)s last reported step %(step)s of %(metric)s, the median of its "
                    "gang is %(median)s",
                    rank=row.rank,
                    step=row.step,
                    metric=metric,
                    median=median,
                ),
            )


def _allowed_steps(steps: Sequence[RankStep], median: int, running_seconds: float) -> float:
    """From how many steps behind on a rank lags. A run that went on from a checkpoint has more
    steps than it did itself: it is judged more mildly."""
    count = max(row.count for row in steps if row.step == median)
    steps_a_report = max(1.0, median / max(1, count))
    in_time = median * LAG_SECONDS / max(1.0, running_seconds)
    return max(LAG_REPORTS * steps_a_report, in_time)
