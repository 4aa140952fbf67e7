"""What each process counts and times about its own work, for Prometheus.

Whoever does the work writes here; `portal.monitoring` serves it. A label has few values, all of
them ours: the name of a route or of a task, never a path, a job or a person.

A Celery worker works in child processes and answers for all of them. So its values are in files of
a folder that its processes share, as prometheus_client does it. Each child has files by its number
in the pool: the one that replaces it goes on where it ended, and there are never more files.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from billiard.process import current_process
from prometheus_client import CollectorRegistry, Counter, Histogram, values

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def is_celery_worker(arguments: Sequence[str]) -> bool:
    """Whether this is the command line of `celery … worker`, by either of its names."""
    program = Path(arguments[0]) if arguments else Path()
    return "celery" in (program.name, program.parent.name) and "worker" in arguments[1:]


def _pool_number() -> str:
    """Distinct in the processes of one worker; the same for a child and its replacement."""
    return str(getattr(current_process(), "index", "main"))


def _share_between_processes() -> None:
    """Needs to come before the first metric is made."""
    folder = tempfile.mkdtemp(prefix="tessera-metrics-")
    os.environ[FOLDER_VARIABLE] = folder
    values.ValueClass = values.MultiProcessValue(_pool_number)
    atexit.register(_remove, folder, os.getpid())


def _remove(folder: str, owner: int) -> None:
    """At the end of the worker; not of one of its children."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


if FOLDER_VARIABLE not in os.environ and is_celery_worker(sys.argv):
    _share_between_processes()

OWN_METRICS = CollectorRegistry(auto_describe=False)
"""Everything below, and nothing else."""

REQUEST_SECONDS = Histogram(
    "tessera_request_seconds",
    "Pages and REST: until the response begins, by name of the route.",
    ("method", "route", "status"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=OWN_METRICS,
)
AGENT_CALLS = Counter(
    "tessera_agent_calls",
    "Calls of agents that were answered.",
    ("call", "status"),
    registry=OWN_METRICS,
)
REPORT_SECONDS = Histogram(
    "tessera_agent_report_seconds",
    "Until what an agent reported is in the database; the wait for news is not counted.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=OWN_METRICS,
)
PASS_SECONDS = Histogram(
    "tessera_pass_seconds",
    "Planning passes that came to their end.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30),
    registry=OWN_METRICS,
)
PLACEMENTS = Counter(
    "tessera_placements",
    "Placements that passes decided: placed, stale (not possible by then), left for the next.",
    ("outcome",),
    registry=OWN_METRICS,
)
TASK_SECONDS = Histogram(
    "tessera_task_seconds",
    "Celery tasks that ended, by name and outcome.",
    ("task", "outcome"),
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 15, 30, 45),
    registry=OWN_METRICS,
)
STORE_SECONDS = Histogram(
    "tessera_store_seconds",
    "Calls of the store of logs, by what they do and whether the store answered.",
    ("operation", "outcome"),
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5),
    registry=OWN_METRICS,
)
STORE_BYTES = Counter(
    "tessera_store_bytes",
    "Bytes written to the store of logs, and read from it.",
    ("direction",),
    registry=OWN_METRICS,
)
LOST_RINGS = Counter(
    "tessera_lost_rings",
    "Bells and tasks that could not be rung; the next sweep makes up for them.",
    ("kind",),
    registry=OWN_METRICS,
)
LOG_LINES = Counter(
    "tessera_log_lines",
    "Lines of the log that are warnings or errors.",
    ("level",),
    registry=OWN_METRICS,
)
# So that a rate can be computed from the first of them on.
for _outcome in ("placed", "stale", "left"):
    PLACEMENTS.labels(_outcome)
for _direction in ("read", "written"):
    STORE_BYTES.labels(_direction)
for _kind in ("bell", "task"):
    LOST_RINGS.labels(_kind)
for _level in ("warning", "error"):
    LOG_LINES.labels(_level)
