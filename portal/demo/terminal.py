"""Output of the demonstration: a progress line on a terminal; elsewhere a line every few seconds,
so that a log or a pipe also says what is going on."""

import time
from typing import TextIO

CLEAR = "\r\x1b[2K"
# Between two lines about the same phase where output is no terminal.
PLAIN_SECONDS = 10.0


class Screen:
    """`note` prints a line; `phase` shows the current phase until the next one begins."""

    def __init__(self, out: TextIO, *, plain_seconds: float = PLAIN_SECONDS) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._plain_seconds = plain_seconds
        self._phase = ""
        self._since = 0.0
        self._next_line = 0.0

    @property
    def current(self) -> str:
        """The name of the current phase."""
        return self._phase

    def note(self, text: str = "") -> None:
        self.finish()
        self._write(f"{text}\n")

    def phase(self, name: str, detail: str = "") -> None:
        """Begin a phase. The same name again only updates the clock and the detail."""
        if name != self._phase:
            self.finish()
            self._phase, self._since = name, time.monotonic()
            self._next_line = 0.0
        if self._is_terminal:
            self._write(f"{CLEAR}  {name:<10} {self._seconds():6.1f} s  {detail}")
        elif self._seconds() >= self._next_line:
            self._write_plain(name, detail)

    def finish(self) -> None:
        """End the current phase and print its duration."""
        if self._phase:
            start = CLEAR if self._is_terminal else ""
            self._write(f"{start}  {self._phase:<10} {self._seconds():6.1f} s\n")
            self._phase = ""

    def _write_plain(self, name: str, detail: str) -> None:
        seconds = self._seconds()
        clock = f"{seconds:6.1f} s" if self._next_line else "     … s"
        self._write(f"  {name:<10} {clock}  {detail}".rstrip() + "\n")
        self._next_line = seconds + self._plain_seconds

    def _seconds(self) -> float:
        return time.monotonic() - self._since

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
