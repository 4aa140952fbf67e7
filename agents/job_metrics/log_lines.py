"""The lines of a log that report metrics, found as its bytes pass. Pure.

A line counts if it begins with the prefix. What follows a carriage return begins a line, too:
progress bars end so, and share the log with what the job prints.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agents.contract.job_metrics import LOG_LINE_PREFIX
from agents.job_metrics.lines import MAX_LINE_BYTES

PREFIX = LOG_LINE_PREFIX.encode()
_LINE = re.compile(rb"(?<![^\r\n])" + PREFIX + rb"([^\n]*)\n")


@dataclass(frozen=True, slots=True)
class MetricLine:
    """What follows the prefix, and where in the log the line is."""

    start: int
    end: int
    text: bytes
    is_too_long: bool = False


class LogLines:
    """Of one log. Holds no more than the beginning of one line."""

    def __init__(self) -> None:
        # Up to where the log was read.
        self.end = 0
        # Of a line that has not ended and may be one that counts.
        self._kept = b""
        self._is_in_line = False

    def begin(self, offset: int) -> None:
        """At the beginning of a line."""
        self.end, self._kept, self._is_in_line = offset, b"", False

    def feed(self, offset: int, data: bytes) -> Iterator[MetricLine]:
        """The lines that end in these bytes. Bytes that were read before are left out; after a
        gap, the next line counts first."""
        if offset < self.end:
            data = data[self.end - offset :]
        elif offset > self.end:
            self._kept, self._is_in_line = b"", True
            self.end = offset
        if not data:
            return
        text, start = self._kept + data, self.end - len(self._kept)
        is_in_line = self._is_in_line
        self.end += len(data)
        # Not beyond the last whole line: each find ends there, so that the time stays linear.
        for found in _LINE.finditer(text, 0, text.rfind(b"\n") + 1):
            if found.start() == 0 and is_in_line:
                continue
            line = found[1]
            is_too_long = len(line) > MAX_LINE_BYTES
            yield MetricLine(
                start + found.start(),
                start + found.end(),
                b"" if is_too_long else line,
                is_too_long,
            )
        yield from self._keep(text, start, is_in_line)

    def _keep(self, text: bytes, start: int, is_in_line: bool) -> Iterator[MetricLine]:
        """Remember how the text ends. A line that is too long is reported now, and not kept."""
        rest = text[text.rfind(b"\n") + 1 :]
        rest = rest[rest.rfind(b"\r", 0, -1) + 1 :]
        begins_line = len(rest) < len(text) or not is_in_line
        self._kept, self._is_in_line = b"", bool(rest)
        if begins_line and (rest.startswith(PREFIX) or PREFIX.startswith(rest)):
            if len(rest) <= len(PREFIX) + MAX_LINE_BYTES:
                self._kept, self._is_in_line = rest, False
            else:
                end = start + len(text)
                yield MetricLine(end - len(rest), end, b"", is_too_long=True)
        elif rest.endswith(b"\r"):
            self._kept, self._is_in_line = b"\r", True
