"""Models and migrations agree, and a migration keeps data."""

import pytest
from django.core.management import call_command

from tests.support.migrations import allocations_moved_and_back
from tests.support.rows import a_job, a_node, a_project, a_user, settle


@pytest.mark.django_db
def test_no_migration_is_missing(capsys):
    try:
        call_command("makemigrations", "--check", "--dry-run", verbosity=1)
    except SystemExit:
        pytest.fail(capsys.readouterr().out)


@pytest.mark.django_db(transaction=True)
def test_allocations_keep_rows_and_content_types_when_their_app_changes():
    alice = a_user("alice")
    node = a_node()
    a_job(alice, a_project("vision", alice))
    settle(node)
    allocations_moved_and_back()
