"""`make bench-pages`: server time and queries of every page and REST list, beside an empty view.

Real PostgreSQL with 10,000 jobs, 1,000 nodes and 8,000 GPUs; the whole stack of middleware, in one
process, one request at a time, pages in turn so that a busy moment meets all. Prints one JSON
object. PAGES_RUNS (20) is how often each is asked; PAGES_JOBS and PAGES_NODES are the size.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tests.environment.postgres import running_postgres


def main() -> int:
    """The server here, Django in a child that knows its address from the start."""
    with running_postgres() as postgres, tempfile.TemporaryDirectory() as var:
        environ = os.environ | {
            "DJANGO_SETTINGS_MODULE": "portal.settings.test",
            "TESSERA_DATABASE_URL": postgres.create_database(migrated=True),
            "TESSERA_VAR": var,
        }
        child = [sys.executable, "-m", "tests.benchmarks.pages_timed"]
        return subprocess.run(child, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
