"""The database as one file of one moment, and back: pg_dump, or the backup API of SQLite."""

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from portal.backup.archive import BackupError

# How long a restore waits for the locks of processes that still run.
LOCK_SECONDS = 10
EMPTY_SCHEMA = f"SET lock_timeout = '{LOCK_SECONDS}s';\nDROP SCHEMA public CASCADE;\n"
NEW_SCHEMA = "CREATE SCHEMA public;\n"


@contextmanager
def database_dump(target: Path) -> Iterator[None]:
    """Write the database as it is at one moment; inside, queries see that moment too.

    Raises BackupError."""
    with transaction.atomic():
        if connection.vendor == "sqlite":
            # The transaction is the only writer, and has written nothing: another connection reads
            # the same. SQLite copies nothing over a connection that is in a transaction.
            source = f"{Path(str(connection.settings_dict['NAME'])).resolve().as_uri()}?mode=ro"
            own, copy = sqlite3.connect(source, uri=True), sqlite3.connect(target)
            with closing(own), closing(copy):
                _copy(own, copy)
        else:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("SELECT pg_export_snapshot()")
                (snapshot,) = cursor.fetchone()
            _run([_program("pg_dump"), "--format=custom", "--no-owner", "--no-privileges",
                  "--schema=public", f"--snapshot={snapshot}", f"--file={target}"])  # fmt: skip
        yield


def database_load(source: Path) -> None:
    """Replace the whole database by a dump, or leave it as it is. Raises BackupError."""
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(source)) as copy:
            connection.ensure_connection()
            _copy(copy, connection.connection)
        connection.close()
        return
    script = _run([_program("pg_restore"), "--no-owner", "--no-privileges", "--file=-",
                   str(source)])  # fmt: skip
    connection.close()
    new = "" if b"CREATE SCHEMA public;" in script else NEW_SCHEMA
    load = [_program("psql"), "--no-psqlrc", "--quiet", "--single-transaction",
            "--set=ON_ERROR_STOP=1", "--output=/dev/null"]  # fmt: skip
    _run(load, (EMPTY_SCHEMA + new).encode() + script)


def database_is_empty() -> bool:
    """Whether nobody has ever used it: no job, no node, no user."""
    tables = set(connection.introspection.table_names())
    used = {"jobs_job", "inventory_node", "accounts_user"} & tables
    with connection.cursor() as cursor:
        for table in used:
            cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")  # noqa: S608 - names of our own
            if cursor.fetchone():
                return False
    return True


def _copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Every page. Raises BackupError if another process keeps the target busy."""
    end = time.monotonic() + LOCK_SECONDS

    def check(_status: int, remaining: int, _total: int) -> None:
        if remaining and time.monotonic() > end:
            raise BackupError("the database is in use: stop web, workers and beat first")

    source.backup(target, progress=check)


def _run(command: list[str], script: bytes = b"") -> bytes:
    done = subprocess.run(  # noqa: S603 - a program of PostgreSQL, arguments of our own
        command, input=script, env=os.environ | _address(), capture_output=True, check=False
    )
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise BackupError(f"{Path(command[0]).name}: {' '.join(why) or done.returncode}")
    return done.stdout


def _address() -> dict[str, str]:
    """The server for libpq. The password is in the environment, never among the arguments."""
    own: dict[str, Any] = connection.settings_dict
    values = {
        "PGHOST": own["HOST"],
        "PGPORT": own["PORT"],
        "PGUSER": own["USER"],
        "PGPASSWORD": own["PASSWORD"],
        "PGDATABASE": own["NAME"],
        "PGSSLMODE": own["OPTIONS"].get("sslmode", ""),
        "PGSSLROOTCERT": own["OPTIONS"].get("sslrootcert", ""),
    }
    return {name: str(value) for name, value in values.items() if value}


def _program(name: str) -> str:
    """Of the server's version, where Debian has several; else the one of the path."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        version = int(cursor.fetchone()[0]) // 10_000
    beside = Path(f"/usr/lib/postgresql/{version}/bin/{name}")
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise BackupError(
            f"{name} is not installed: install PostgreSQL's client programs, version {version}"
        )
    return found
