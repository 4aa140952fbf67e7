"""`python -m tests.environment install [LEVEL…]`: install the Debian packages that the levels need.

`python -m tests.environment size`: fail if a source file is longer than 400 lines.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from tests.environment import debian

MAX_LINES = 400
# What all workers of the tests that follow need, and would wait for.
PREPARATIONS = (
    "from scheduler.jit_warmup import warm_up; warm_up()",
    "from tests.environment.django_sqlite import migrated; migrated()",
)


def install(levels: list[str]) -> None:
    """Install missing packages if that is allowed, and print what will be skipped if not. Meanwhile
    the planner is compiled and a database migrated."""
    with contextlib.ExitStack() as preparations:
        for program in PREPARATIONS:
            preparations.enter_context(subprocess.Popen([sys.executable, "-c", program]))
        _install(levels)


def _install(levels: list[str]) -> None:
    optional = [level for level in levels if level in debian.OPTIONAL]
    try:
        _install_missing([level for level in levels if level not in optional])
    except debian.InstallFailed as failure:
        sys.exit(f"tessera: {failure}")
    for level in optional:
        with contextlib.suppress(debian.InstallFailed):
            _install_missing([level])
    for level in levels:
        reason = debian.why_not(level)
        if reason:
            print(f"tessera: {level} tests that need it will be skipped: {reason}", flush=True)


def _install_missing(levels: list[str]) -> None:
    """Raises InstallFailed."""
    wanted = {tool for level in levels for tool in debian.missing(level) if _worth_it(level)}
    if wanted and debian.can_install():
        print(f"tessera: installing {' '.join(sorted(t.package for t in wanted))}", flush=True)
        debian.install(wanted)


def _worth_it(level: str) -> bool:
    return level not in debian.STARTS_CONTAINERS or debian.may_start_containers()


def size() -> None:
    """A file is one idea. Migrations and tests may be longer."""
    listed = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True)
    long = [
        f"{name}: {lines} lines, at most {MAX_LINES}"
        for name in listed.stdout.splitlines()
        if not {"migrations", "tests"} & set(Path(name).parts)
        and Path(name).exists()
        and (lines := len(Path(name).read_text().splitlines())) > MAX_LINES
    ]
    if long:
        sys.exit("\n".join(long))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["install", *levels]:
            install(levels or list(debian.LEVELS))
        case ["size"]:
            size()
        case _:
            sys.exit(__doc__)
