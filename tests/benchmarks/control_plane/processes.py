"""Processor time and memory of processes and all that they started, from /proc."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Of the process itself, with its threads. 0 if it is gone."""
    own = _stat(pid)
    return (own[11] + own[12]) / TICKS if own else 0.0


def children_cpu_seconds(pid: int) -> float:
    """Of what it started: those that it has waited for, and those that still run."""
    ended = _stat(pid)
    if not ended:
        return 0.0
    alive = sum(cpu_seconds(child) + children_cpu_seconds(child) for child in _children(pid))
    return (ended[13] + ended[14]) / TICKS + alive


def memory_mib(pid: int) -> float:
    """Of the process and all that it started; a page that several share is divided among them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    own = next(int(line.split()[1]) / 1_024 for line in lines if line.startswith("Pss:"))
    return own + sum(memory_mib(child) for child in _children(pid))


def spent(since: Mapping[str, float], until: Mapping[str, float], jobs: int) -> dict[str, float]:
    """Milliseconds a job, by name."""
    return {name: round((until[name] - since[name]) * 1_000 / jobs, 1) for name in until}


def _stat(pid: int) -> list[int]:
    """The fields from the third on; empty if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [0, *map(int, text.rpartition(")")[2].split()[1:])]


def _children(pid: int) -> Iterable[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found |= set(map(int, task.read_text().split()))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
