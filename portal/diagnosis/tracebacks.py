"""Python's tracebacks in the lines of a log, also where a launcher or a logger writes a prefix
before each line, and where those of several processes are interleaved. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from portal.diagnosis.log_text import FailureLine

HEADER = "Traceback (most recent call last):"
# A traceback has at most this many lines; a recursion error repeats its frames less often.
MAX_LINES = 400
# Numbers and times in a prefix differ from line to line.
_DIGITS = re.compile(r"\d+")
# `module.Error: words`, or a name alone. The name has no blanks, so one look decides.
_EXCEPTION = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Za-z_]\w{0,80})(?::(?: (?P<words>.*))?)?$"
)
_NAMES = ("Error", "Exception", "Interrupt", "Exit", "Warning", "Failure", "Timeout", "OOM")
# Launchers that report the end of another process: what they say is no cause.
CONSEQUENCES = (
    "ChildFailedError",
    "CalledProcessError",
    "ProcessExitedException",
    "ProcessRaisedException",
    "BrokenProcessPool",
    "EngineDeadError",
    "RayTaskError",
    "SystemExit",
    "KeyboardInterrupt",
    "SignalException",
)
# "Engine core initialization failed. See root cause above."
ELSEWHERE = ("See root cause above", "See stack trace above")


@dataclass(frozen=True, slots=True)
class RaisedException:
    """The last line of one traceback."""

    line: FailureLine
    name: str
    """Such as "torch.OutOfMemoryError"."""
    words: str
    start: int
    """Index of the traceback's first line."""
    end: int
    """Index of its last line."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def text(self) -> str:
        """As Python prints it, without a logger's prefix."""
        return f"{self.name}: {self.words}" if self.words else self.name

    @property
    def is_consequence(self) -> bool:
        return self.short_name in CONSEQUENCES or any(each in self.words for each in ELSEWHERE)


def raised_exceptions(lines: Sequence[FailureLine]) -> list[RaisedException]:
    """The exceptions at the ends of all tracebacks, in the order of their first lines."""
    found = []
    for index, line in enumerate(lines):
        at = line.text.find(HEADER)
        if at >= 0 and (raised := _end_of(lines, index, line.text[:at])):
            found.append(raised)
    return found


def exception_in(text: str) -> tuple[str, str] | None:
    """Name and words, if the text is the last line of a traceback."""
    match = _EXCEPTION.match(text)
    if match is None:
        return None
    name, has_colon = match["name"], text[match.end("name") :].startswith(":")
    is_named = name.rpartition(".")[2].endswith(_NAMES) or "." in name
    return (name, match["words"] or "") if is_named or has_colon else None


def _end_of(lines: Sequence[FailureLine], start: int, prefix: str) -> RaisedException | None:
    """The first line after the frames. Lines of other processes, with another prefix, are passed
    over; without a prefix, the first line that is not indented decides."""
    shape = _shape(prefix)
    for index in range(start + 1, min(len(lines), start + MAX_LINES)):
        line = lines[index]
        if shape and _shape(line.text[: len(prefix)]) != shape:
            continue
        text = line.text[len(prefix) :]
        if not text or text[0] in " \t|+":
            continue
        found = exception_in(text)
        return RaisedException(line, *found, start, index) if found else None
    return None


def _shape(prefix: str) -> str:
    """The prefix without its numbers, but those in "[rank3]" and "pid=12" tell processes apart."""
    if re.search(r"rank ?\d|pid=\d", prefix):
        return prefix.rstrip()
    return _DIGITS.sub("0", prefix).rstrip()
