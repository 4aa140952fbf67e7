"""The rows by number: what each is called, what it settles, its time limit, and its function."""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from tests.gpu.use.record import Record


@dataclass(frozen=True)
class Row:
    number: int
    name: str
    # "module.function" of this package.
    function: str
    # After which it is ended.
    seconds: int
    settles: str

    @property
    def file(self) -> str:
        return f"use-{self.number:02}-{self.name}.json"

    def load(self) -> Callable[[Record], None]:
        module, _, name = self.function.partition(".")
        found: Callable[[Record], None] = getattr(
            importlib.import_module(f"tests.gpu.use.{module}"), name
        )
        return found


# For a longer look at a machine of one's own.
LOAD_SECONDS = int(os.environ.get("LOAD_SECONDS") or 60)
AGENT_SECONDS = int(os.environ.get("AGENT_SECONDS") or 60)

ROWS = (
    Row(1, "board", "rows_driver.board", 40, "the board's table; what is read with MIG off"),
    Row(2, "latency", "rows_driver.latency", 40, "what a refresh and a sample cost"),
    Row(3, "handles", "rows_driver.handles", 20, "which session of ours keeps the GPU open"),
    Row(4, "device_files", "rows_driver.device_files", 20, "device nodes, capabilities, minors"),
    Row(5, "events", "rows_faults.events", 45, "the event set; with FAULT=1 an XID of our own"),
    Row(6, "processes", "rows_faults.processes", 40, "pids and memory as NVML lists them"),
    Row(7, "load", "rows_load.load", 50 + LOAD_SECONDS, "percent and warnings at full load"),
    Row(8, "profiler", "rows_load.profiler", 95, "whether telemetry breaks users' profilers"),
    Row(9, "mps", "rows_mps.mps", 170, "MPS: daemon, limits, clients, faults, recovery"),
    Row(10, "job_environment", "rows_jobs.job_environment", 180, "libraries as uid 65534"),
    Row(11, "collectives", "rows_jobs.collectives", 160, "NCCL and gloo on one GPU"),
    Row(12, "visibility", "rows_driver.visibility", 60, "which device a name makes visible"),
    Row(13, "agent", "rows_agent.agent", 40 + AGENT_SECONDS, "the agent on a real driver"),
)


def chosen(words: str) -> list[Row]:
    """The rows of "1-4,12" in that order, or all for "". Raises ValueError with a sentence."""
    if not words:
        return [*ROWS]
    by_number = {row.number: row for row in ROWS}
    found = []
    for part in words.split(","):
        first, dash, last = part.strip().partition("-")
        numbers = [first, last if dash else first]
        if not all(number.isdigit() and int(number) in by_number for number in numbers):
            raise ValueError(f"ROWS={words}: {part!r} is no row from 1 to {len(ROWS)}")
        found += [by_number[n] for n in range(int(first), int(numbers[1]) + 1)]
    return found
