"""The figures of a run from the lives of its jobs: rates, waits, and how GPUs are refilled."""

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from tests.benchmarks.control_plane.database import JobLife
from tests.benchmarks.control_plane.replicas import ReplicaTimes

Steps = dict[str, float]


def percentile(values: Iterable[float], percent: int) -> float | None:
    """None of nothing."""
    ordered = sorted(values)
    if len(ordered) < 2:
        return round(ordered[0], 1) if ordered else None
    cuts = statistics.quantiles(ordered, n=100, method="inclusive")
    return round(cuts[percent - 1], 1)


def spread(values: Iterable[float]) -> dict[str, float | None]:
    known = list(values)
    return {f"p{percent}": percentile(known, percent) for percent in (50, 90, 99)}


def jobs_per_second(lives: Sequence[JobLife], begun_at: float) -> float:
    """Whole jobs: from the first submit until the last one has ended."""
    ends = [life.finished_at.timestamp() for life in lives if life.finished_at]
    return round(len(ends) / (max(ends) - begun_at), 2)


def milliseconds(since: datetime | None, until: datetime | None) -> Iterator[float]:
    """One number, or none if the job did not come so far."""
    if since and until:
        yield (until - since).total_seconds() * 1_000


def refills(lives: Iterable[JobLife], times: Mapping[str, ReplicaTimes]) -> list[Steps]:
    """Of each GPU that became free while the job that came next on it was waiting already: the
    milliseconds until that job ran, and the steps in between."""
    by_gpu: dict[str, list[JobLife]] = defaultdict(list)
    for life in lives:
        if life.gpu and life.uid in times:
            by_gpu[life.gpu].append(life)
    found = []
    for rows in by_gpu.values():
        rows.sort(key=lambda life: times[life.uid].started_at)
        for ended, following in itertools.pairwise(rows):
            found += _refill(ended, following, times)
    return found


def _refill(ended: JobLife, following: JobLife, times: Mapping[str, ReplicaTimes]) -> list[Steps]:
    end, start = times[ended.uid].ended_at, times[following.uid].started_at
    known, released, queued, reserved = (
        moment.timestamp() if moment else None
        for moment in (
            ended.known_ended_at,
            ended.released_at,
            following.queued_at,
            following.reserved_at,
        )
    )
    if not (known and released and queued and reserved) or queued > end:
        return []
    moments = {
        "ended_to_known": (end, known),
        "known_to_released": (known, released),
        "released_to_reserved": (released, reserved),
        "reserved_to_started": (reserved, start),
        "idle": (end, start),
    }
    return [{name: (until - since) * 1_000 for name, (since, until) in moments.items()}]


def refill_steps(steps: Sequence[Steps]) -> dict[str, dict[str, float | None]]:
    names = steps[0] if steps else {}
    return {name: spread(step[name] for step in steps) for name in names}
