"""Reads when and where a job may run, and who is told: begin time, dependencies, labels, taints.

Each reader reports problems to `refuse` and returns a valid value in any case.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agents.contract.message import Message
from scheduler.core.request.quantities import read_seconds
from scheduler.core.request.values import ProblemCode, Refuse

# A label or a taint of a node: a key, or a key and a value.
NODE_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}(=[A-Za-z0-9._-]{1,63})?")
# A job or an array, and perhaps that any end of it is enough.
DEPENDENCY = re.compile(r"([AJaj]-)?0*([1-9][0-9]{0,17})(:ended)?", re.IGNORECASE)
ANY_END = ":ended"
# As Slurm has it.
FOREIGN_DEPENDENCY = re.compile(r"after(ok|any):(?:[AJaj]-)?0*([1-9][0-9]{0,17})", re.IGNORECASE)
# The owner's mail address, or an endpoint of webhooks whose name has no spaces.
NOTIFY = re.compile(r"email|webhook:[!-~]{1,64}")
MAX_NOTIFY = 8
MAX_AFTER = MAX_NODE_LABELS = 32
MAX_BEGIN_IN_SECONDS = 366 * 86_400
# 2000 to 2100: any other time is a mistake.
FIRST_BEGIN, LAST_BEGIN = 946_684_800, 4_102_444_800


def read_begin(value: Any, refuse: Refuse) -> tuple[int, int]:
    """(seconds since the epoch, 0) of "2026-01-31T18:00:00+01:00", (0, seconds) of "+2h"."""
    if not isinstance(value, str) or len(value) > 40:
        sentence = 'write a time in quotes, such as "2026-01-31T18:00:00+01:00", or "+2h"'
        refuse("begin_at", ProblemCode.TYPE, sentence)
        return (0, 0)
    if value.startswith("+"):
        return (0, _begin_in(value, refuse))
    return (_begin_at(value, refuse), 0)


def _begin_in(value: str, refuse: Refuse) -> int:
    try:
        seconds = read_seconds(value[1:])
    except ValueError as error:
        refuse("begin_at", ProblemCode.VALUE, Message("%(why)s, after the +", why=error.args[0]))
        return 0
    if seconds > MAX_BEGIN_IN_SECONDS:
        refuse("begin_at", ProblemCode.RANGE, "at most a year from now")
        return 0
    return seconds


def _begin_at(value: str, refuse: Refuse) -> int:
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        sentence = 'write a time such as "2026-01-31T18:00:00+01:00", or "+2h"'
        refuse("begin_at", ProblemCode.VALUE, sentence)
        return 0
    if when.tzinfo is None:
        refuse("begin_at", ProblemCode.VALUE, 'add the time zone, such as "+01:00", or "Z" for UTC')
        return 0
    seconds = int((when - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() // 1)
    if not FIRST_BEGIN <= seconds <= LAST_BEGIN:
        refuse("begin_at", ProblemCode.RANGE, "write a time between 2000 and 2100")
        return 0
    return seconds


def write_begin(at: int, after: str) -> str:
    """As `read_begin` reads it. `after`: the written seconds of a "+2h", else empty."""
    if after:
        return f"+{after}"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""


@dataclass(frozen=True, slots=True)
class DependencyLabel:
    """What one word of `after` says."""

    label: str
    """Of a job or an array: "J-12", "A-5"."""
    requires_success: bool = True

    @property
    def is_array(self) -> bool:
        return self.label.startswith("A-")

    @property
    def number(self) -> int:
        return int(self.label[2:])

    def __str__(self) -> str:
        return self.label if self.requires_success else self.label + ANY_END


def parse_dependency(word: str) -> DependencyLabel:
    """Of the canonical form."""
    label, _, end = word.partition(":")
    return DependencyLabel(label, not end)


def read_after(value: Any, refuse: Refuse) -> tuple[str, ...]:
    """Labels of jobs and arrays, each once, in their order: ["j-12", "13:ended"] becomes
    ("J-12", "J-13:ended"). One that is there both ways must succeed."""
    if not isinstance(value, list) or len(value) > MAX_AFTER:
        refuse(
            "after",
            ProblemCode.TYPE,
            Message('write a list of at most %(n)s jobs, such as ["J-12"]', n=MAX_AFTER),
        )
        return ()
    labels: dict[str, bool] = {}
    for index, entry in enumerate(value):
        match = DEPENDENCY.fullmatch(entry) if isinstance(entry, str) else None
        if match is None:
            sentence = 'write the label of a job, such as "J-12", or "J-12:ended" for any end of it'
            refuse(f"after.{index}", ProblemCode.VALUE, sentence, _meant_after(value, index))
        else:
            label = f"{match[1] or 'J-'}{match[2]}".upper()
            labels[label] = labels.get(label, False) or not match[3]
    return tuple(str(DependencyLabel(*each)) for each in labels.items())


def _meant_after(entries: Sequence[object], place: int) -> dict[str, list[object]] | None:
    """With one word of Slurm's, such as "afterany:12", in its form here."""
    entry = entries[place]
    match = FOREIGN_DEPENDENCY.fullmatch(entry) if isinstance(entry, str) else None
    if match is None:
        return None
    word = DependencyLabel(f"J-{match[2]}", match[1].lower() == "ok")
    return {"after": [*entries[:place], str(word), *entries[place + 1 :]]}


def read_notify(value: Any, refuse: Refuse) -> tuple[str, ...]:
    """Ways to tell of the job, each once: ["email", "webhook:ci"]."""
    if not isinstance(value, list) or len(value) > MAX_NOTIFY:
        sentence = Message(
            'write a list of at most %(n)s words, such as ["email", "webhook:ci"]', n=MAX_NOTIFY
        )
        refuse("notify", ProblemCode.TYPE, sentence)
        return ()
    words: dict[str, None] = {}
    for index, entry in enumerate(value):
        if not isinstance(entry, str) or not NOTIFY.fullmatch(entry):
            refuse(
                f"notify.{index}", ProblemCode.VALUE, 'write "email", or "webhook:" and its name'
            )
        else:
            words[entry] = None
    return tuple(words)


def read_node_labels(field: str, value: Any, refuse: Refuse) -> tuple[str, ...]:
    """Labels or taints of nodes, each once: ["nvme", "zone=a"]."""
    if not isinstance(value, list) or len(value) > MAX_NODE_LABELS:
        sentence = Message(
            'write a list of at most %(n)s words, such as ["nvme", "zone=a"]', n=MAX_NODE_LABELS
        )
        refuse(field, ProblemCode.TYPE, sentence)
        return ()
    words: dict[str, None] = {}
    for index, entry in enumerate(value):
        if not isinstance(entry, str) or not NODE_LABEL.fullmatch(entry):
            refuse(
                f"{field}.{index}", ProblemCode.VALUE, 'write a key, or "key=value", without spaces'
            )
        else:
            words[entry] = None
    return tuple(words)
