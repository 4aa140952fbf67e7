"""When a Jupyter server last did something, by what its own REST API says. Pure.

Source: jupyter_server's REST API. `/api/kernels` and `/api/terminals` have `last_activity` of each,
`/api/status` when the server `started`. A kernel is `busy` while it runs a cell, on whatever
device. An open browser window alone is no activity. The answers are those of a program of a user:
anything may come.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from agents.contract.notebooks import MAX_IDLE_MINUTES

STATUS, KERNELS, TERMINALS = "/api/status", "/api/kernels", "/api/terminals"
PATHS = (STATUS, KERNELS, TERMINALS)
# States of a kernel that is at work, or will be at once.
BUSY = frozenset(("busy", "starting", "restarting"))


def idle_minutes(answers: dict[str, Any], now: datetime) -> int | None:
    """For how many whole minutes no kernel and no terminal has done anything; 0 while one is at
    work. None if that cannot be said. `answers`: by path; terminals may be switched off."""
    kernels = answers.get(KERNELS)
    if not isinstance(kernels, list):
        return None
    if any(isinstance(each, dict) and _is_busy(each.get("execution_state")) for each in kernels):
        return 0
    times = list(_times(answers))
    if not times or None in times:
        return None
    newest = max(time for time in times if time is not None)
    return min(max(0, int((now - newest).total_seconds() // 60)), MAX_IDLE_MINUTES)


def _is_busy(state: Any) -> bool:
    return isinstance(state, str) and state in BUSY


def _times(answers: dict[str, Any]) -> Iterator[datetime | None]:
    """None for what has no time that can be read."""
    status = answers.get(STATUS)
    yield _time(status.get("started") if isinstance(status, dict) else None)
    terminals = answers.get(TERMINALS)
    for rows in (answers[KERNELS], terminals if isinstance(terminals, list) else []):
        for row in rows:
            yield _time(row.get("last_activity") if isinstance(row, dict) else None)


def _time(written: Any) -> datetime | None:
    if not isinstance(written, str):
        return None
    try:
        time = datetime.fromisoformat(written)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def read_answer(data: bytes) -> Any:
    """The JSON of an HTTP answer; None if it is none, or no success."""
    head, end, body = data.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not end or not words[0].startswith(b"HTTP/1.") or words[1:2] != [b"200"]:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def request_bytes(path: str, port: int) -> bytes:
    """One call of the API. By HTTP/1.0 the answer is not in chunks, and the connection ends."""
    lines = (f"GET {path} HTTP/1.0", f"Host: 127.0.0.1:{port}", "Accept: application/json", "", "")
    return "\r\n".join(lines).encode()
