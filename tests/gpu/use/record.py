"""The file of one row: the raw words of the driver and of programs. Written after every step, so
that a row that is ended by its time limit keeps what it has."""

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.nvml.errors import NvmlFailure

MAX_CHARACTERS = 2 << 20
PROGRAMS = Path(__file__).with_name("programs")
# What a program of ours prints: JSON lines.
Words = list[dict[str, Any]]


class NotPossible(Exception):
    """The row, or the step, cannot be done on this machine; the sentence says why."""


class Record:
    """The file of one row. A step is "done", "failed", or "not_possible" with its reason."""

    def __init__(self, path: Path, *, row: int, name: str, settles: str, simulated: Path | None):
        self.path = path
        self.simulated = simulated
        self.content: dict[str, Any] = {
            "row": row,
            "name": name,
            "settles": settles,
            "simulated": simulated is not None,
            "outcome": "unfinished",
            "reason": "",
            "seconds": 0.0,
            "refused": [],
            "steps": {},
        }
        self._since = time.monotonic()
        self.write()

    def step(self, name: str, question: Callable[[], Any]) -> Any:
        """The answer, also kept under this name; None where the step fails or is not possible."""
        began = time.monotonic()
        answer = None
        try:
            answer = question()
            kept: dict[str, Any] = {"outcome": "done", "answer": answer}
        except NotPossible as impossible:
            kept = {"outcome": "not_possible", "reason": str(impossible)}
        except (FileNotFoundError, PermissionError) as error:
            kept = {"outcome": "not_possible", "reason": f"{error.filename}: {error.strerror}"}
        except NvmlFailure as failure:
            kept = {"outcome": "failed", "code": failure.code, "reason": str(failure)}
        except Exception:
            kept = {"outcome": "failed", "reason": traceback.format_exc()}
        kept["seconds"] = round(time.monotonic() - began, 4)
        self.content["steps"][name] = kept
        self.write()
        return answer

    def program(self, name: str, command: Sequence[str], **options: Any) -> dict[str, Any] | None:
        """A program's words under this name, as `words_of` has them."""
        found: dict[str, Any] | None = self.step(name, lambda: self.words_of(command, **options))
        return found

    def words_of(
        self,
        command: Sequence[str],
        *,
        seconds: float = 30,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """The exit status and the words of a program. Raises NotPossible where it is missing, and
        on a simulated node where it is a tool of NVIDIA's, which would speak of another GPU."""
        if self.simulated and Path(command[0]).name.startswith(("nvidia-", "ncu")):
            raise NotPossible(f"a simulated node has no {Path(command[0]).name}")
        environment = dict(os.environ if env is None else env)
        try:
            done = subprocess.run(
                [*command], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=seconds, check=False, **options,
            )  # fmt: skip
        except FileNotFoundError as missing:
            raise NotPossible(f"this machine has no {missing.filename}") from missing
        except PermissionError as barred:
            raise NotPossible(f"{barred.filename}: {barred.strerror}") from barred
        except subprocess.TimeoutExpired as late:
            words = {"stdout": late.stdout or b"", "stderr": late.stderr or b""}
            return {"command": [*command], "late_after": seconds, **_texts(words)}
        words = {"stdout": done.stdout, "stderr": done.stderr}
        return {"command": [*command], "status": done.returncode, **_texts(words)}

    def end(self, outcome: str, reason: str = "", refused: Sequence[str] = ()) -> None:
        self.content |= {"outcome": outcome, "reason": reason, "refused": [*refused]}
        self.write()

    def write(self) -> None:
        self.content["seconds"] = round(time.monotonic() - self._since, 3)
        text = json.dumps(self.content, indent=1, default=str) + "\n"
        beside = self.path.with_suffix(".part")
        beside.write_text(text, "utf-8")
        beside.replace(self.path)


def own_program(name: str, *arguments: str) -> list[str]:
    """The command line of a file of `programs/`, with the Python that runs this."""
    return [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments]


def lines_of(text: str) -> Words:
    """The JSON lines among what a program printed."""
    found: Words = []
    for line in text.splitlines():
        if line.startswith("{"):
            found.append(json.loads(line))
    return found


def _texts(words: Mapping[str, bytes]) -> dict[str, str]:
    """As text, and cut where it is longer than any that a person reads."""
    return {name: text.decode("utf-8", "replace")[:MAX_CHARACTERS] for name, text in words.items()}
