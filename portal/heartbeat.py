"""The sign of life of a worker or of beat: a file that it touches, and a program that looks at it.

    python -m portal.heartbeat --within 30      # exit status 1 if the file is older, or missing

A worker touches it from its main loop while it is connected to the broker, beat whenever the broker
has taken a task from it. Celery's remote control, which could be asked instead, stays off: whoever
can write to the broker could use it as well. Uses neither Django nor Celery, so that a look is
cheap.
"""

import argparse
import os
import sys
import time
from pathlib import Path

VARIABLE = "TESSERA_HEARTBEAT_FILE"
# When this process last gave one, and until then when it began.
_signed_at = time.monotonic()


def touch(path: str) -> None:
    """`path`: empty if nobody looks at it."""
    global _signed_at
    _signed_at = time.monotonic()
    if path:
        Path(path).touch(mode=0o600)


def seconds_since_sign() -> float:
    """Of this process; before the first sign, since it began."""
    return time.monotonic() - _signed_at


def problem(path: str, within: float, now: float) -> str:
    """What is wrong with the sign of life; empty if it is at most `within` seconds old."""
    if not path:
        return f"{VARIABLE} is not set"
    try:
        age = now - Path(path).stat().st_mtime
    except FileNotFoundError:
        return f"{path} does not exist: nothing was done yet"
    return f"{path} was last touched {age:.0f} s ago" if age > within else ""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m portal.heartbeat")
    parser.add_argument("--within", type=float, default=30, help="seconds (30)")
    within = parser.parse_args(arguments).within
    if found := problem(os.environ.get(VARIABLE, ""), within, time.time()):
        sys.exit(found)


if __name__ == "__main__":
    main(sys.argv[1:])
