"""Where the time of a job went: the summary that its profiler wrote into its output.

It is read as what a user wrote: of bounded size, and with no other fields and amounts than
`agents/profiler/hook.py` writes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from agents.contract.file_transfer import TreeKind
from agents.contract.message import Message
from agents.contract.profilers import Profiler
from agents.profiler.hook import (
    FOLDER,
    MAX_NAME,
    MAX_OPERATORS,
    SUMMARY_FILE,
    TRACE_FILE,
    VERSION,
)
from portal.files.models import StoredFile, Tree, TreeEntry
from portal.files.receiving import OBJECT_BYTES
from portal.files.selectors import job_trees
from portal.jobs.models import Job
from portal.storage.errors import StoreError
from portal.storage.ranges import range_pieces

SUMMARY_PATH, TRACE_PATH = f"{FOLDER}/{SUMMARY_FILE}", f"{FOLDER}/{TRACE_FILE}"
MAX_BYTES = 64 << 10
# A day in microseconds: no window is that long.
MAX_US = 86_400_000_000
MAX_COUNT, MAX_TEXT = 1_000_000_000, 128
# Of the window, from which on a hint is given. Below them, causes are seldom worth the search.
LOADING_PERCENT, COMMUNICATION_PERCENT, COPY_PERCENT, IDLE_PERCENT = 10, 20, 10, 25


class TimeCategory(StrEnum):
    """What a moment of a profile counts as: of several things at once the first one here."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    COPY = "copy"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class ProfiledOperator:
    """A kernel of the GPU, or an operator on the CPU, by its name."""

    name: str
    category: TimeCategory
    calls: int
    us: int


@dataclass(frozen=True, slots=True)
class TimeProfile:
    """Of one rank over some steps. Times in microseconds."""

    steps: int
    rank: int
    world: int
    torch: str
    device: str
    """The name of its GPU; empty without one."""
    by_device: bool
    """Whether it counts the kernels of a GPU, or else operators on the CPU."""
    window_us: int
    times_us: Mapping[TimeCategory, int]
    """They make up the window."""
    communication_total_us: int
    """With what computing hides."""
    loading_us: int
    """Waiting for the data loader."""
    operators: tuple[ProfiledOperator, ...]
    """The longest first."""

    def percent(self, us: int) -> float:
        """Of the window."""
        return 100 * us / self.window_us

    @property
    def hints(self) -> list[Message]:
        """What to look at; the widest cause first comes before what follows from it."""
        return profile_hints(self)


@dataclass(frozen=True, slots=True)
class JobProfile:
    """What there is of a job with a profiler."""

    attempt: int = 0
    """That wrote it; 0 without one."""
    tree: UUID | None = None
    """That has the trace."""
    profile: TimeProfile | None = None
    problem: Message | None = None
    """Why there is no profile."""


def job_profile(job: Job) -> JobProfile | None:
    """None for a job without a profiler. Two queries, and a summary is read from the store."""
    if job.request.get("profiler", Profiler.NONE) == Profiler.NONE:
        return None
    outputs = job_trees(job).filter(kind=TreeKind.OUTPUT)
    rows = TreeEntry.objects.select_related("file", "tree__attempt")
    found = rows.filter(tree__in=outputs.with_files(), path__in=(SUMMARY_PATH, TRACE_PATH))
    # The summary comes before the trace that it is of.
    entry = found.order_by("-tree__attempt", "tree__rank", "path").first()
    if entry is None:
        return JobProfile(problem=_missing(job, outputs.first()))
    attempt = entry.tree.attempt.number if entry.tree.attempt else 0
    if entry.path == TRACE_PATH:
        problem = Message(
            "There is a trace without a summary: it was too long to be read in the job, or the job "
            "ended meanwhile. Open the trace itself"
        )
        return JobProfile(attempt, entry.tree_id, problem=problem)
    try:
        profile = read_profile(_content(entry.file))
    except StoreError as error:
        return JobProfile(attempt, entry.tree_id, problem=error.message)
    if profile is None:
        problem = Message("The profile cannot be read: the job has changed it")
        return JobProfile(attempt, entry.tree_id, problem=problem)
    return JobProfile(attempt, entry.tree_id, profile)


def _missing(job: Job, output: Tree | None) -> Message:
    """`output`: its newest."""
    if not job.finished_at:
        return Message("The profile appears here when the job has ended, as a part of its output")
    if output is not None and output.removed_at is not None:
        return Message("The output of the job was removed, and any profile with it")
    return Message(
        "The profiler wrote nothing. It needs an agent as new as the portal, Python that keeps "
        "PYTHONPATH and has no -I or -E, PyTorch 2.0 or newer, and more than 5 steps of an "
        "optimizer. The log may say more"
    )


def _content(file: StoredFile) -> bytes:
    """Empty for what is longer than any summary: not a byte of it is read. Raises StoreError."""
    if file.size > MAX_BYTES:
        return b""
    return b"".join(range_pieces(file.stream, 0, file.size, OBJECT_BYTES))


def read_profile(content: bytes) -> TimeProfile | None:
    """None for what the hook does not write. Pure."""
    if len(content) > MAX_BYTES:
        return None
    try:
        return _read(json.loads(content))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _read(data: Any) -> TimeProfile:
    """Raises ValueError, KeyError, TypeError."""
    if data["version"] != VERSION:
        raise ValueError("version")
    window = _count(data["window_us"], MAX_US)
    times = {category: _count(data[f"{category}_us"], MAX_US) for category in TimeCategory}
    # Each part is rounded by itself.
    if not window or abs(sum(times.values()) - window) > len(times):
        raise ValueError("window_us")
    if not isinstance(data["operators"], list) or len(data["operators"]) > MAX_OPERATORS:
        raise ValueError("operators")
    return TimeProfile(
        steps=_count(data["steps"], MAX_COUNT),
        rank=_count(data["rank"], MAX_COUNT),
        world=_count(data["world"], MAX_COUNT),
        torch=_text(data["torch"], MAX_TEXT),
        device=_text(data["device"], MAX_TEXT),
        by_device=data["by_device"] is True,
        window_us=window,
        times_us=times,
        communication_total_us=_count(data["communication_total_us"], window),
        loading_us=_count(data["loading_us"], window),
        operators=tuple(map(_operator, data["operators"])),
    )


def _operator(data: Any) -> ProfiledOperator:
    category = TimeCategory(data["category"])
    # Kernels of several streams run at once.
    us = _count(data["us"], MAX_US)
    return ProfiledOperator(
        _text(data["name"], MAX_NAME), category, _count(data["calls"], MAX_COUNT), us
    )


def _count(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("count")
    return value


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise ValueError("text")
    return "".join(letter if letter.isprintable() else " " for letter in value)


def profile_hints(profile: TimeProfile) -> list[Message]:
    """What to look at, by the thresholds above. Pure."""
    times, percent = profile.times_us, profile.percent
    found = []
    if not profile.by_device:
        found.append(
            Message(
                "No GPU was used: everything was computed on the CPU. Check that the program moves "
                "its model and its data to the GPU"
            )
        )
    if percent(profile.loading_us) >= LOADING_PERCENT:
        found.append(
            Message(
                "The program waited for its data loader for %(percent)s of the time: give it more "
                "workers, or keep the data on the local disk of the node",
                percent=percent_text(percent(profile.loading_us)),
            )
        )
    idle = times[TimeCategory.IDLE]
    if profile.by_device and percent(idle - min(idle, profile.loading_us)) >= IDLE_PERCENT:
        found.append(
            Message(
                "The GPU had nothing to do for %(percent)s of the time. Look in the trace at what "
                "the CPU does in the gaps: many small kernels (try torch.compile or a larger "
                "batch), or values that are read back with .item() or print",
                percent=percent_text(percent(idle)),
            )
        )
    if percent(times[TimeCategory.COMMUNICATION]) >= COMMUNICATION_PERCENT:
        found.append(
            Message(
                "Communication that no computing hides takes %(percent)s of the time: accumulate "
                "gradients over several steps, use larger batches, or place the gang closer "
                "together. A rank that waits for a slower one counts as communicating, too",
                percent=percent_text(percent(times[TimeCategory.COMMUNICATION])),
            )
        )
    if percent(times[TimeCategory.COPY]) >= COPY_PERCENT:
        found.append(
            Message(
                "Copies take %(percent)s of the time: pin the memory of the data loader, copy with "
                "non_blocking=True, and make tensors on the GPU where they are used",
                percent=percent_text(percent(times[TimeCategory.COPY])),
            )
        )
    if not found:
        computing = percent_text(percent(times[TimeCategory.COMPUTE]))
        found.append(
            Message(
                "Nothing stands out: the GPU computes for %(percent)s of the time",
                percent=computing,
            )
        )
    return found


def percent_text(value: float) -> str:
    """ "12 %", "0.4 %"."""
    return f"{value:.0f}\N{NO-BREAK SPACE}%" if value >= 10 else f"{value:.1f}\N{NO-BREAK SPACE}%"
