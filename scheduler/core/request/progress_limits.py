"""How long a job may be without progress, and what happens then.

    "30m"       ─▶ it is stopped when nothing of it has written a log line or a metric for so long
    "30m:warn"  ─▶ it is only warned

Who judges it: `portal/idle/`.
"""

from dataclasses import dataclass, replace
from typing import Any

from agents.contract.message import Message
from scheduler.core.request.quantities import read_seconds, write_seconds
from scheduler.core.request.typed_text import probably_meant
from scheduler.core.request.values import ProblemCode, Refuse
from scheduler.core.request_fields import FieldKind

FIELD = "progress_limit"
LEAST_SECONDS = 600
MOST_SECONDS = 86_400
WARN, STOP = "warn", "stop"
EXAMPLES = 'write a time such as "30m", or "30m:warn" for a warning without a stop'


@dataclass(frozen=True, slots=True)
class ProgressLimit:
    seconds: int
    stops: bool = True
    """Else it only warns."""

    def __str__(self) -> str:
        return write_seconds(self.seconds) + ("" if self.stops else f":{WARN}")


def parse_progress_limit(written: object) -> ProgressLimit:
    """Raises ValueError with a sentence that says what to write."""
    amount, word = written, STOP
    if isinstance(written, str):
        before, colon, after = written.rpartition(":")
        if colon and after.strip().lower() in (WARN, STOP):
            amount, word = before, after.strip().lower()
    try:
        seconds = read_seconds(amount)
    except ValueError:
        raise ValueError(EXAMPLES) from None
    return ProgressLimit(seconds, word == STOP)


def read_progress_limit(value: Any, policy_seconds: int, refuse: Refuse) -> str:
    """In its canonical form; "" without one. `policy_seconds`: after so long the installation stops
    the job anyway; 0 if it does not."""
    if value == "":
        return ""
    try:
        limit = parse_progress_limit(value)
    except ValueError as error:
        meant = probably_meant(FieldKind.DURATION, value)
        changes = {FIELD: str(_bounded(parse_progress_limit(meant)))} if meant else None
        refuse(FIELD, ProblemCode.VALUE, error.args[0], changes)
        return ""
    if limit != _bounded(limit):
        least, most = write_seconds(LEAST_SECONDS), write_seconds(MOST_SECONDS)
        sentence = Message("from %(least)s to %(most)s", least=least, most=most)
        refuse(FIELD, ProblemCode.RANGE, sentence, {FIELD: str(_bounded(limit))})
    elif policy_seconds and limit.seconds > policy_seconds:
        sentence = Message(
            "gangs without progress are stopped here after %(most)s: write at most that, or "
            "idle_stop: false",
            most=write_seconds(policy_seconds),
        )
        refuse(FIELD, ProblemCode.RANGE, sentence, {"idle_stop": False})
    return str(limit)


def _bounded(limit: ProgressLimit) -> ProgressLimit:
    return replace(limit, seconds=min(max(limit.seconds, LEAST_SECONDS), MOST_SECONDS))
