"""CUDA programs of our own, running beside a row. None of them outlives its block."""

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.gpu.use.record import NotPossible, Record, Words, own_program

END_SECONDS = 10.0
DRAIN_SECONDS = 2.0


class Client:
    """A running program of `programs/`, and the JSON lines that it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: Words = []
        self._errors: list[str] = []
        self._new: queue.Queue[dict[str, Any] | None] = queue.Queue()
        reads = (self._read_lines, self._read_errors)
        self._readers = [threading.Thread(target=read, daemon=True) for read in reads]
        for reader in self._readers:
            reader.start()

    def next(self, seconds: float) -> dict[str, Any]:
        """The next line. Raises NotPossible with its last words where there is none in time."""
        try:
            line = self._new.get(timeout=seconds)
        except queue.Empty:
            raise NotPossible(f"{self.name} printed nothing within {seconds:g} s") from None
        if line is None:
            self._new.put(None)
            raise NotPossible(f"{self.name} ended: {self.until_end(DRAIN_SECONDS)}")
        return line

    def until_end(self, seconds: float) -> dict[str, Any]:
        """Its exit status and words; also where it does not end in time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
            # What it wrote last may still be in the pipes; a child of its own may keep them open.
            self.drain()
        return self.words()

    def drain(self) -> None:
        """Once it has ended."""
        for reader in self._readers:
            reader.join(DRAIN_SECONDS)

    def words(self) -> dict[str, Any]:
        return {
            "pid": self.process.pid,
            "status": self.process.poll(),
            "lines": list(self.lines),
            "stderr": "".join(self._errors)[-8_000:],
        }

    @property
    def name(self) -> str:
        return Path(str(self.process.args[1])).name  # type: ignore[index]

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for text in stream:
                if text.startswith("{"):
                    line = json.loads(text)
                    self.lines.append(line)
                    self._new.put(line)
        self._new.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            self._errors.extend(stream)


@contextlib.contextmanager
def running(
    record: Record, program: str, *arguments: str, env: Mapping[str, str] | None = None,
    user: int | None = None, command: Sequence[str] = (),
) -> Iterator[Client]:  # fmt: skip
    """A program of `programs/`, or another `command`. Raises NotPossible on a simulated node."""
    if record.simulated:
        raise NotPossible("a simulated node runs no CUDA program")
    options = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    words = [*(command or own_program(program, *arguments))]
    try:
        process = subprocess.Popen(
            words, env=dict(os.environ) | dict(env or {}),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            **options,  # type: ignore[call-overload]
        )  # fmt: skip
    except OSError as error:
        raise NotPossible(f"uid {user} cannot run {words[0]}: {error.strerror}") from error
    client = Client(process)
    try:
        yield client
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()  # type: ignore[union-attr]
        client.drain()
