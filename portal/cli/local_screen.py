"""The terminal in which a command runs, as the screen and the keys of another one."""

import asyncio
import os
import signal
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self

from portal.cli.exit_codes import CommandFailed, ExitCode

READ_BYTES = 4 << 10
# Typed, and not taken yet.
MAX_READS = 16
# Leave the alternate screen, reset the modes, clear (DECRST 1049, DECSTR, ED, CUP).
CLEAR = b"\x1b[?1049l\x1b[!p\x1b[2J\x1b[3J\x1b[H"
# Modes that a program of the job may have left: mouse reports, bracketed paste, a hidden cursor,
# the alternate screen.
RESTORE = b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[?1049l\x1b[m"


class LocalScreen:
    """Raw while it is entered: every key is passed on, Ctrl-C too."""

    def __init__(self) -> None:
        self._input, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self._keys: asyncio.Queue[bytes] = asyncio.Queue(MAX_READS)
        self._before: list[Any] = []
        self._is_reading = False
        self.resized = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Raises CommandFailed where there is no terminal."""
        if not (os.isatty(self._input) and os.isatty(self._output)):
            sentence = "A terminal is needed here: standard input or output is a file or a pipe"
            again = "tessera port, for programs"
            raise CommandFailed("usage", sentence, again, ExitCode.USAGE)
        self._before = termios.tcgetattr(self._input)
        # What was typed ahead stays.
        tty.setraw(self._input, termios.TCSADRAIN)
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self.resized.set)
        self._watch()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_reader(self._input)
        os.write(self._output, RESTORE)
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        size = os.get_terminal_size(self._output)
        return max(size.columns, 1), max(size.lines, 1)

    async def read(self) -> bytes:
        """What is typed next; b"" where the terminal is gone."""
        data = await self._keys.get()
        if not self._is_reading:
            self._watch()
        return data

    async def write(self, data: bytes) -> None:
        """Returns once the terminal has taken it. In a thread: its descriptor is also that of the
        shell around us, and may not be made one that does not block."""
        await asyncio.get_running_loop().run_in_executor(None, self._write, data)

    def _watch(self) -> None:
        self._is_reading = True
        asyncio.get_running_loop().add_reader(self._input, self._take)

    def _take(self) -> None:
        try:
            data = os.read(self._input, READ_BYTES)
        except OSError:
            data = b""
        self._keys.put_nowait(data)
        if not data or self._keys.full():
            self._is_reading = False
            asyncio.get_running_loop().remove_reader(self._input)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._output, left) :]
