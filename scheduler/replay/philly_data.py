"""Reads the Philly-derived traces of Muri (SIGCOMM'22): a CSV with times in milliseconds."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace; times in seconds from the trace's begin."""

    id: str
    gpus: int
    submitted_at: int
    seconds: int


def read_trace(path: Path) -> list[TraceJob]:
    """The jobs in the order of their submission. ValueError where a column is missing."""
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    try:
        jobs = [_job(row) for row in rows]
    except KeyError as missing:
        raise ValueError(f"{path.name} has no column {missing}") from missing
    return sorted(jobs, key=lambda job: (job.submitted_at, int(job.id)))


def drawn_limits(jobs: Sequence[TraceJob], how: str, seed: int) -> list[int] | None:
    """The limit that each job states, in seconds: `true` = its duration, `A-B` = a factor drawn
    uniformly between A and B times it; None for `none`."""
    if how == "none":
        return None
    if how == "true":
        return [job.seconds for job in jobs]
    low, _, high = how.partition("-")
    factors = np.random.default_rng(seed).uniform(float(low), float(high), len(jobs))
    return [max(job.seconds, round(f * job.seconds)) for job, f in zip(jobs, factors, strict=True)]


def _job(row: dict[str, str]) -> TraceJob:
    seconds = max(1, round(int(row["duration"]) / 1_000))
    return TraceJob(
        row["job_id"], int(row["num_gpu"]), round(int(row["submit_time"]) / 1_000), seconds
    )
