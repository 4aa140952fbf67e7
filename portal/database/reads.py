"""Statements that only read, as one transaction instead of one each."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.db import connection, transaction


def reads_together() -> AbstractContextManager[Any]:
    """For work that reads much and writes nothing. PostgreSQL begins and ends one transaction, not
    one for each statement; each still sees what had been committed when it began.

    Nothing on SQLite, where whoever begins a transaction is the only writer until it ends."""
    if connection.vendor == "postgresql":
        return transaction.atomic(savepoint=False)
    return nullcontext()
