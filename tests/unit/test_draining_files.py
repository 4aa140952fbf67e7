"""A process that drains looks through its descriptors; the locks on its files stay."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

# A write transaction that is open while the process drains, and until its standard input ends.
WRITER = """
import sqlite3, sys
from portal.draining import own_listeners_close_door
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print(own_listeners_close_door(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_draining_process_keeps_its_lock_on_a_database(tmp_path, journal):
    path = tmp_path / "rows.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA journal_mode={journal}")
        database.execute("CREATE TABLE rows (number INTEGER)")
    command = [sys.executable, "-c", WRITER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as writer:
        assert writer.stdout.readline() == "True\n"
        with (
            closing(sqlite3.connect(path, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("BEGIN IMMEDIATE")
        writer.stdin.close()
    assert writer.returncode == 0
