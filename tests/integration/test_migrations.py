"""Models and migrations agree, and a migration keeps data."""

import pytest
from django.core.management import call_command

from tests.support.migrations import assert_allocations_move_and_stay


@pytest.mark.django_db
def test_no_migration_is_missing(capsys):
    try:
        call_command("makemigrations", "--check", "--dry-run", verbosity=1)
    except SystemExit:
        pytest.fail(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_allocations_keep_rows_and_content_types_when_their_app_changes():
    assert_allocations_move_and_stay()
