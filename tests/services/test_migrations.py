"""Migrations on PostgreSQL."""

import pytest

from tests.support.migrations import allocations_moved_and_back
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.services


@pytest.mark.usefixtures("postgres_django")
def test_allocations_keep_rows_and_content_types_when_their_app_changes():
    alice = a_user("alice")
    node = a_node()
    a_job(alice, a_project("vision", alice))
    settle(node)
    allocations_moved_and_back()
