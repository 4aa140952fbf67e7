"""Logs of programs that really failed, each with its cause: `logs/NAME.log`.

A file begins with lines `# key: value`: `made` (how), `cause`, and where the end is stored `stop`,
`code`, `pull`, `status` or `memory_kill`. The logs of the replicas that failed follow, the first to
fail first, each behind a line `=== rank 0, exit 1 ===`. `make.py` makes those again that say so.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from agents.contract.message import verbatim
from portal.diagnosis.log_text import failure_lines
from portal.diagnosis.values import AttemptEnd, ReplicaEnd

FOLDER = Path(__file__).parent / "logs"
_SECTION = re.compile(rb"^=== rank (\d+), exit (-|\d+) ===\n", re.MULTILINE)


@dataclass(frozen=True)
class FailureLog:
    """One file."""

    name: str
    fields: dict[str, str]
    replicas: tuple[tuple[int, int | None, bytes], ...]
    """Rank, exit code and log of each."""

    @property
    def end(self) -> AttemptEnd:
        fields = self.fields
        return AttemptEnd(
            stop_reason=fields.get("stop", "failed"),
            code=fields.get("code", ""),
            status=fields.get("status", "exited"),
            message=verbatim(fields["sentence"]) if "sentence" in fields else None,
            pull_cause=fields.get("pull", ""),
            replicas=[
                ReplicaEnd(
                    rank, code, fields.get("memory_kill") == "yes", failure_lines(rank, 1, log)
                )
                for rank, code, log in self.replicas
            ],
        )


def read_failure_log(path: Path) -> FailureLog:
    head, *sections = _SECTION.split(path.read_bytes())
    lines = [line[2:] for line in head.decode().splitlines() if line.startswith("# ")]
    fields = dict(line.split(": ", 1) for line in lines)
    parts = zip(sections[::3], sections[1::3], sections[2::3], strict=True)
    replicas = tuple(
        (int(rank), None if code == b"-" else int(code), log) for rank, code, log in parts
    )
    return FailureLog(path.stem, fields, replicas)


def failure_logs() -> list[FailureLog]:
    return [read_failure_log(path) for path in sorted(FOLDER.glob("*.log"))]
