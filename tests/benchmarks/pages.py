"""`make bench-pages`: server time and queries of every page and REST list, beside an empty view.

Real PostgreSQL with 10,000 jobs, 1,000 nodes and 8,000 GPUs; the whole stack of middleware, in one
process, one request at a time, pages in turn so that a busy moment meets all. What is free is
published anew every 5 s, as the planning worker does. What is under way goes to stderr, one JSON
object to stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.environment.postgres import PostgresServer, running_postgres


def options(words: list[str] | None = None) -> argparse.Namespace:
    """What the command takes; both halves read it."""
    parser = argparse.ArgumentParser(prog="make bench-pages", description=__doc__)
    add = parser.add_argument
    add(
        "--pages",
        default="",
        metavar="A,B",
        help="only these names of tests/support/pages.py",
    )
    add("--size", default="10000x1000", metavar="JOBSxNODES", help="of a database seeded anew")
    add("--runs", type=int, default=20, help="how often each is asked")
    add("--seconds", type=float, default=20, help="the most spent on one, after three times")
    add("--arrays", type=int, default=3, metavar="N", help="how many arrays of 1,000 are submitted")
    add("--profile", type=int, default=0, metavar="N", help="the N costliest functions of each too")
    add("--keep", type=Path, metavar="DIR", help="keep the seeded server's files in DIR, or use it")
    add("--database", default="", metavar="URL", help="ask this PostgreSQL, seeded already")
    found = parser.parse_args(words)
    try:
        found.jobs, found.nodes = map(int, found.size.split("x"))
    except ValueError:
        parser.error(f"--size is such as 10000x1000, not {found.size!r}")
    return found


def main(words: list[str]) -> int:
    """The server here, Django in a child that knows its address from the start."""
    asked = options(words)
    with _database(asked) as url, tempfile.TemporaryDirectory() as var:
        environ = os.environ | {
            "DJANGO_SETTINGS_MODULE": "portal.settings.test",
            "TESSERA_DATABASE_URL": url,
            "TESSERA_VAR": var,
        }
        child = [sys.executable, "-m", "tests.benchmarks.pages_timed", *words]
        return subprocess.run(child, env=environ, check=False).returncode


@contextlib.contextmanager
def _database(asked: argparse.Namespace) -> Iterator[str]:
    if asked.database:
        yield asked.database
    elif asked.keep:
        with contextlib.ExitStack() as stack:
            server = PostgresServer(_made(asked.keep))
            stack.callback(server.stop)
            server.start()
            yield server.url()
    else:
        with running_postgres() as server:
            yield server.url()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
