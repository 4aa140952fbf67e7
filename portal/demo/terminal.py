"""Output of the demonstration: a progress line on a terminal, plain lines elsewhere."""

import time
from typing import TextIO

CLEAR = "\r\x1b[2K"


class Screen:
    """`note` prints a line; `phase` shows the current phase until the next one begins."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._phase = ""
        self._since = 0.0

    def note(self, text: str = "") -> None:
        self.finish()
        self._write(f"{text}\n")

    def phase(self, name: str, detail: str = "") -> None:
        """Begin a phase. The same name again only updates the clock and the detail."""
        if name != self._phase:
            self.finish()
            self._phase, self._since = name, time.monotonic()
        if self._is_terminal:
            self._write(f"{CLEAR}  {name:<10} {self._seconds():6.1f} s  {detail}")

    def finish(self) -> None:
        """End the current phase and print its duration."""
        if self._phase:
            start = CLEAR if self._is_terminal else ""
            self._write(f"{start}  {self._phase:<10} {self._seconds():6.1f} s\n")
            self._phase = ""

    def _seconds(self) -> float:
        return time.monotonic() - self._since

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
