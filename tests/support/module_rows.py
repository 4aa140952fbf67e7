"""Rows that all tests of a module find. The transaction of each test lies inside theirs."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from pytest_django.plugin import DjangoDbBlocker


@contextmanager
def module_rows(blocker: DjangoDbBlocker) -> Iterator[None]:
    """What is written before the tests stays until they have ended. For a fixture of a module none
    of whose tests needs real transactions; it asks for `django_db_setup` and `django_db_blocker`.
    """
    with blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)
