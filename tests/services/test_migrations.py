"""Migrations on PostgreSQL."""

import pytest

from tests.support.migrations import assert_allocations_move_and_stay

pytestmark = pytest.mark.services


@pytest.mark.slow
@pytest.mark.usefixtures("postgres_django")
def test_allocations_keep_rows_and_content_types_when_their_app_changes():
    assert_allocations_move_and_stay()
