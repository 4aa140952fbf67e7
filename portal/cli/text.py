"""Numbers, times and untrusted text for a terminal. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

UNITS_PER_GPU = 56_000
UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
# A complete escape sequence (OSC, DCS, CSI, two bytes), so that no rest of it is printed.
_ESCAPE = re.compile(
    r"\x1b(?:[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\[[0-?]*[ -/]*[@-~]?|[ -/]*[0-~])?"
    r"|\x9b[0-?]*[ -/]*[@-~]?"
)
# Other control characters, and marks that change the writing direction.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# How a sentence of the portal writes a moment (agents.contract.moments).
_UTC_TIME = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?) UTC\b", re.ASCII)
_BREAK = re.compile(r"\r\n?")


def single_line(text: object) -> str:
    """The text on one line, without terminal control sequences; times in UTC become local."""
    return local_times(" ".join(strip_controls(str(text)).split()))


def local_times(text: str) -> str:
    """A sentence with its times in the terminal's zone: "not before 2026-11-26 02:00 CST"."""
    return _UTC_TIME.sub(_local_time, text)


def _local_time(match: re.Match[str]) -> str:
    try:
        when = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
        return when.astimezone().strftime("%Y-%m-%d %H:%M %Z")
    except (ValueError, OverflowError):
        # No day, or one that is out of the calendar in this zone: anybody may write it.
        return match[0]


def strip_controls(text: str) -> str:
    """The text without terminal control sequences; newlines and tabs stay."""
    return _CONTROL.sub("", _ESCAPE.sub("", _BREAK.sub("\n", text)))


def parse_time(text: Any) -> datetime | None:
    """A timestamp of REST, or None."""
    try:
        parsed = datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    return parsed if parsed is None or parsed.tzinfo else parsed.replace(tzinfo=UTC)


def duration_text(seconds: float) -> str:
    """3_700 -> "1h1m": the two largest units."""
    left = max(0, int(seconds))
    words: list[str] = []
    for unit, size in UNITS.items():
        amount, left = divmod(left, size)
        if amount or words:
            words.append(f"{amount}{unit}")
        if len(words) == 2:
            break
    return "".join(word for word in words if word[:-1] != "0") or "0s"


def clock_text(when: datetime, now: datetime) -> str:
    """Local time: "14:05" today, otherwise with the date."""
    local, today = when.astimezone(), now.astimezone()
    return local.strftime("%H:%M" if local.date() == today.date() else "%Y-%m-%d %H:%M")


def gpu_count_text(units: Any) -> str:
    """Units as GPUs: 56_000 -> "1", 8_000 -> "0.143"."""
    if not isinstance(units, int):
        return "-"
    return f"{Decimal(units) / UNITS_PER_GPU:.3f}".rstrip("0").rstrip(".")


def memory_text(mib: Any) -> str:
    if not isinstance(mib, int):
        return "-"
    return f"{mib / 1024:.0f}GiB" if mib >= 1024 else f"{mib}MiB"


def expected_start_text(job: Mapping[str, Any], now: datetime) -> str:
    """When a waiting job is expected to start, or why there is no estimate."""
    if estimate := job.get("estimate"):
        when, last = parse_time(estimate.get("expected")), parse_time(estimate.get("pessimistic"))
        if last and (cases := estimate.get("bound_held_in_10")):
            return f"starts by {clock_text(last, now)} in {cases} of 10 cases"
        if when:
            latest = f" (at the latest {clock_text(last, now)})" if last and last > when else ""
            return f"starts about {clock_text(when, now)}{latest}"
    if none := job.get("no_estimate"):
        return single_line(none.get("sentence", ""))
    return ""


def bound_text(job: Mapping[str, Any]) -> str:
    """When a wait ends at the latest, and who ends it; "" if nothing more is known."""
    return single_line((job.get("bound") or {}).get("sentence", ""))
