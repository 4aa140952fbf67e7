"""Migrated SQLite databases as copies of one, for this process's Django and for the stacks that
tests start. Migrating each would double the start of a stack."""

from __future__ import annotations

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

from tests.environment.kept import KEPT, REPOSITORY, kept

# What migrations fill and no test changes.
FILLED = {"django_content_type", "auth_permission"}


def migrated() -> Path:
    """The file to copy. The first caller for this state of the code migrates; others wait."""
    return kept("migrated", _migrate)


def copy_migrated(to: Path) -> None:
    """Write the file `to`."""
    shutil.copyfile(migrated(), to)


def _migrate(to: Path) -> None:
    with tempfile.TemporaryDirectory(dir=KEPT) as var:
        own = {"TESSERA_VAR": var, "DJANGO_SETTINGS_MODULE": "portal.settings.dev"}
        others = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
        command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(command, check=True, env=others | own, cwd=REPOSITORY)
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
