"""Reads the Philly-derived traces of Muri (SIGCOMM'22): a CSV with times in milliseconds."""

import csv
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scheduler.replay.errors import ReplayError


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace; times in seconds from the trace's begin."""

    id: str
    gpus: int
    submitted_at: int
    seconds: int


def read_trace(path: Path) -> list[TraceJob]:
    """The jobs in the order of their submission. Raises ReplayError."""
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as wrong:
        raise ReplayError(f"--trace {path}: cannot be read ({wrong})") from None
    jobs = [_job(row, f"--trace {path}: line {line}") for line, row in enumerate(rows, 2)]
    if not jobs:
        raise ReplayError(f"--trace {path}: there is no job in it")
    twice = [id for id, times in Counter(job.id for job in jobs).items() if times > 1]
    if twice:
        raise ReplayError(f"--trace {path}: two jobs have the number {twice[0]}")
    return sorted(jobs, key=lambda job: (job.submitted_at, int(job.id)))


def sample_limits(jobs: Sequence[TraceJob], how: str, seed: int) -> list[int] | None:
    """The limit that each job states, in seconds: `true` = its duration, `A-B` = a factor drawn
    uniformly between A and B times it; None for `none`. Raises ReplayError."""
    if how == "none":
        return None
    if how == "true":
        return [job.seconds for job in jobs]
    low, high = _factors(how)
    factors = np.random.default_rng(seed).uniform(low, high, len(jobs))
    return [max(job.seconds, round(f * job.seconds)) for job, f in zip(jobs, factors, strict=True)]


def _factors(how: str) -> tuple[float, float]:
    low, _, high = how.partition("-")
    try:
        found = float(low), float(high)
    except ValueError:
        found = (math.nan, math.nan)
    if not 0 < found[0] <= found[1] <= 1_000:
        raise ReplayError(
            f"--limits {how}: write none, true, or two factors up to 1000 such as 1-5"
        )
    return found


def _job(row: dict[str, str], where: str) -> TraceJob:
    try:
        number, gpus = int(row["job_id"]), int(row["num_gpu"])
        submitted, took = int(row["submit_time"]), int(row["duration"])
    except KeyError as missing:
        raise ReplayError(f"{where}: there is no column {missing.args[0]}") from None
    except (TypeError, ValueError):
        columns = "job_id, num_gpu, submit_time and duration"
        raise ReplayError(f"{where}: {columns} are whole numbers") from None
    if gpus < 1 or submitted < 0 or took < 0:
        raise ReplayError(f"{where}: a job has at least 1 GPU, and no time is negative")
    return TraceJob(str(number), gpus, round(submitted / 1_000), max(1, round(took / 1_000)))
