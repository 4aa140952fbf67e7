"""What a diagnosis is made from, and what it says. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.contract.message import Message
from portal.diagnosis.log_text import FailureLine
from portal.jobs.failure_causes import Confidence, FailureCause


@dataclass(frozen=True, slots=True)
class ReplicaEnd:
    """How one replica ended, and the end of its log."""

    rank: int
    exit_code: int | None = None
    memory_kill: bool = False
    """The engine says that the kernel killed it for its memory."""
    lines: Sequence[FailureLine] = ()


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended, as it is stored."""

    stop_reason: str = ""
    code: str = ""
    """Of the replica that failed first: an `EndCause` or another word of its node."""
    status: str = ""
    """Of the replica that failed first: exited, failed or lost."""
    message: Message | None = None
    """What its node said of it."""
    pull_cause: str = ""
    """A `PullCause`, if its image could not be pulled."""
    replicas: Sequence[ReplicaEnd] = ()
    """Those that failed by themselves, the first to fail first."""


@dataclass(frozen=True, slots=True)
class FailureFinding:
    """A cause and what shows it."""

    cause: FailureCause
    confidence: Confidence
    sentence: Message
    """The headline."""
    line: FailureLine | None = None
    """The evidence; None where the end itself is."""
    values: Mapping[str, Any] = field(default_factory=dict)
    is_consequence: bool = False
