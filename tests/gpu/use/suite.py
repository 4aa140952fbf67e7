"""One run of the level `use`: read the settings, run the rows one by one, read them again."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.gpu.reading import begin, settings
from tests.gpu.report import ROOT
from tests.gpu.session import changed_settings
from tests.gpu.suite import FAILED, NO_DRIVER, PASSED, UNUSABLE, no_driver
from tests.gpu.use.rows import Row, chosen

SUMMARY = "test-gpu-use.json"
BETWEEN_SECONDS = 5


def run(simulated: Path | None, words: str) -> int:
    """The exit status of `tests.gpu.__main__`. `words` chooses rows."""
    try:
        rows = chosen(words)
        begin(simulated)
    except (ValueError, FileNotFoundError) as error:
        return _say(UNUSABLE, str(error))
    absent = no_driver()
    if absent:
        return _say(NO_DRIVER, f"{absent} Nothing was tested.")
    if simulated:
        _say(PASSED, f"{simulated} is a simulated node: this run proves the suite, and no GPU.")
    out = Path(os.environ.get("OUT") or ROOT / "var")
    out.mkdir(parents=True, exist_ok=True)
    before = settings()
    found = [_run(row, out, simulated) for row in rows]
    changed = changed_settings(before, settings())
    is_well = not changed and all(one["outcome"] != "failed" for one in found)
    status = PASSED if is_well else FAILED
    summary = {
        "status": status,
        "simulated": simulated is not None,
        "changed_meanwhile": changed,
        "rows": found,
    }
    (out / SUMMARY).write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
    return _say(status, *changed, f"The report is {out / SUMMARY}, with one file for each row.")


def _run(row: Row, out: Path, simulated: Path | None) -> dict[str, Any]:
    """The row's outcome, which is also printed. Its processes end with it."""
    path = out / row.file
    path.unlink(missing_ok=True)
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.gpu.use.row", str(row.number), str(path),
         *([str(simulated.absolute())] if simulated else [])],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    late = False
    try:
        child.wait(row.seconds)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        _end(child)
    content = {"row": row.number, "name": row.name} | _read(path, child.returncode)
    if late:
        content |= {"outcome": "failed", "reason": f"it did not end within {row.seconds} s"}
        path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    line = f"{row.number:>2} {row.name:<16} {content['outcome']:<13} {content['seconds']:>7.1f} s"
    _say(PASSED, f"{line}  {_one_line(content['reason'])}".rstrip())
    kept = ("row", "name", "outcome", "reason", "seconds", "refused")
    return {name: content[name] for name in kept}


def _end(child: subprocess.Popen[bytes]) -> None:
    """The row and what it started: they are one session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(BETWEEN_SECONDS)


def _read(path: Path, status: int) -> dict[str, Any]:
    """What the row wrote. One that ended before its last word has failed."""
    found: dict[str, Any] = {"seconds": 0.0, "refused": [], "steps": {}, "outcome": "unfinished"}
    if path.exists():
        found |= json.loads(path.read_text("utf-8"))
    if found["outcome"] == "unfinished":
        found |= {"outcome": "failed", "reason": f"its process ended with {status}"}
    return found


def _one_line(reason: str) -> str:
    return (reason.strip().splitlines() or [""])[-1][:200]


def _say(status: int, *lines: str) -> int:
    for line in lines:
        sys.stderr.write(f"{line}\n")
    return status
