"""Runs git: its arguments as a list, within limits of time, memory and of each file that it
writes."""

import contextlib
import logging
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agents.host.programs import SEARCH_PATH, run_program

log = logging.getLogger("agents.git_code")

MAX_WORDS = 300
VERSION_SECONDS = 10.0
# What one git process may have of memory that is its own: a crafted pack may ask for any amount.
MEMORY_BYTES = 2 << 30
# The first that can be told the addresses of a host (`http.curloptResolve`).
OLDEST_VERSION = (2, 37)
NO_GIT = "this node has no git of version 2.37 or newer"


def find_git() -> str:
    """The path of this machine's git; empty if there is none that is new enough."""
    path = shutil.which("git", path=SEARCH_PATH)
    found = run_program(VERSION_SECONDS, path, "version") if path else None
    version = re.match(r"git version ([0-9]+)\.([0-9]+)", found.output) if found else None
    is_fit = version is not None and tuple(map(int, version.groups())) >= OLDEST_VERSION
    return path if path and is_fit else ""


def offered_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Of those that this node's policy allows, what it can fetch from: none without a git."""
    if not hosts or find_git():
        return hosts
    log.warning("no_git", extra={"why": f"git_hosts of the policy are not offered: {NO_GIT}"})
    return ()


class GitEnded(Exception):
    """Git failed, and says why."""


class GitTooLong(Exception):
    """It did not end in time, and was killed."""


class GitTooLarge(Exception):
    """It would write, or need, more than it may."""


@dataclass(frozen=True, slots=True)
class GitProgram:
    """Git in one repository. `deadline`: by time.monotonic. `file_bytes`: of each file that it
    writes."""

    path: str
    repository: Path
    environment: Mapping[str, str]
    deadline: float
    file_bytes: int

    def run(self, *arguments: str) -> str:
        """What it prints. Raises GitEnded, GitTooLong, GitTooLarge."""
        with self.reading(*arguments) as output:
            return output.read(1 << 16).decode("utf-8", "replace").strip()

    @contextmanager
    def reading(self, *arguments: str) -> Iterator[IO[bytes]]:
        """What it prints, while it runs. Its end is not awaited where not all of it is read."""
        with self._process(arguments) as process:
            assert process.stdout is not None  # noqa: S101 - it is piped
            yield process.stdout

    @contextmanager
    def talking(self, *arguments: str) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        """Its standard input and output."""
        with self._process(arguments, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None  # noqa: S101 - they are piped
            assert process.stdout is not None  # noqa: S101
            yield process.stdin, process.stdout

    @contextmanager
    def _process(
        self, arguments: Sequence[str], stdin: int = subprocess.DEVNULL
    ) -> Iterator["subprocess.Popen[bytes]"]:
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(  # noqa: S603 - an argument list, and no shell
                [self.path, *arguments],
                cwd=self.repository,
                env=dict(self.environment),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
                # So that its helpers end with it.
                start_new_session=True,
            )
            self._limit(process.pid)
            timer = threading.Timer(max(0.0, self.deadline - time.monotonic()), _kill, (process,))
            timer.start()
            try:
                yield process
                self._finish(process, errors)
            except (EOFError, BrokenPipeError):
                self._finish(process, errors)
                raise GitEnded("git ended early") from None
            finally:
                timer.cancel()
                _kill(process)
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        with contextlib.suppress(OSError):
                            stream.close()
                process.wait()

    def _limit(self, pid: int) -> None:
        # It may have failed at once.
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (self.file_bytes, self.file_bytes))
            resource.prlimit(pid, resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))

    def _has_full_file(self) -> bool:
        """A process is killed as it exceeds its limit, and its parent does not say why."""
        paths = (path for path in self.repository.rglob("*") if path.is_file())
        return any(path.stat().st_size >= self.file_bytes for path in paths)

    def _finish(self, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        if process.stdout is not None and process.stdout.read(1):
            # Its reader had enough.
            return
        if status := process.wait():
            if time.monotonic() >= self.deadline:
                raise GitTooLong
            text = _tail(errors)
            if self._has_full_file() or "out of memory" in text.lower():
                raise GitTooLarge
            raise GitEnded(_words(text) or f"git ended with {status}")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """With its helpers. Its number is its own until it was awaited."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _tail(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - 8 * MAX_WORDS))
    return errors.read().decode("utf-8", "replace")


def _words(text: str) -> str:
    """The last things that git said. They come from its server, so they are shown as plain text."""
    said = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line.removeprefix("fatal: ").removeprefix("error: ") for line in said[-3:]]
    shown = "".join(each if each.isprintable() else " " for each in "; ".join(lines))
    return shown[-MAX_WORDS:]
