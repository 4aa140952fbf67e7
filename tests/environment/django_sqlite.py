"""Migrated SQLite databases as copies of one, for this process's Django and for the stacks that
tests start. Migrating each would double the start of a stack."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management.color import no_style
from django.db import connection
from django.test import TransactionTestCase

REPOSITORY = Path(__file__).resolve().parent.parent.parent
KEPT = REPOSITORY / "var" / "tests"
# These files have the migrations and the code that fills tables after them (permissions, content
# types).
SOURCES = ("portal/**/*.py", "requirements/portal.lock")
# What migrations fill and no test changes.
FILLED = {"django_content_type", "auth_permission"}


def copy_migrated(to: Path) -> None:
    """Write the file `to`. The first caller for this state of the code migrates; others wait."""
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / f"migrated-{_digest()}.sqlite3"
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            for old in KEPT.glob("migrated-*"):
                old.unlink()
            _migrate(kept)
        shutil.copyfile(kept, to)


def _digest() -> str:
    state = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in REPOSITORY.glob(pattern)):
        state.update(f"{path}\n".encode() + path.read_bytes())
    return state.hexdigest()[:16]


def _migrate(to: Path) -> None:
    with tempfile.TemporaryDirectory(dir=KEPT) as var:
        own = {"TESSERA_VAR": var, "DJANGO_SETTINGS_MODULE": "portal.settings.dev"}
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
        command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(command, check=True, env=kept | own, cwd=REPOSITORY)
        (Path(var) / "tessera.sqlite3").rename(to)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """The database of `django_db` tests begins as a copy; `migrate` then finds nothing to do."""
    database = settings.DATABASES["default"]
    if "sqlite" in database["ENGINE"]:
        copy_migrated(Path(database["TEST"]["NAME"]))


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    return True


@pytest.fixture(scope="session", autouse=True)
def empty_quickly() -> Iterator[None]:
    """After a test with real transactions, its rows go. Django would fill the tables of permissions
    and content types anew after each, which takes 20 times as long."""

    def empty(_case: TransactionTestCase) -> None:
        names = connection.introspection.django_table_names(only_existing=True)
        tables = [name for name in names if name not in FILLED]
        statements = connection.ops.sql_flush(no_style(), tables)
        connection.ops.execute_sql_flush(statements)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty)
        yield
