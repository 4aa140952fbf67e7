"""Migrates the database of a test back and forth."""

from typing import Any

from django.apps.registry import Apps
from django.contrib.contenttypes.models import ContentType
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from portal.allocations.models import Allocation
from tests.support.rows import a_job, a_node, a_project, a_user, settle

# Models that portal.jobs had before.
MOVED = ("allocation", "allocationsample")
COLUMNS = ("pk", "slice_id", "replica_id", "units", "status")


def migrate_to(*targets: tuple[str, str | None]) -> Apps:
    """The models as they are after these migrations; None: before the first one of an app."""
    executor = MigrationExecutor(connection)
    executor.migrate(list(targets))
    nodes = [target for target in targets if target[1] is not None]
    return MigrationExecutor(connection).loader.project_state(nodes).apps


def migrate_to_newest() -> None:
    """Apply every migration of every app, and make what is made after them, as `migrate` does: the
    triggers of a table that was built anew."""
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())
    emit_post_migrate_signal(verbosity=0, interactive=False, db=connection.alias)


def assert_allocations_move_and_stay() -> None:
    """Migrate an allocation back to when portal.jobs had it, and forward again. Raises
    AssertionError unless each row and each content type stays what it was."""
    alice = a_user("alice")
    node = a_node()
    a_job(alice, a_project("vision", alice))
    settle(node)
    rows = _rows(Allocation.objects)
    assert rows, "there is nothing to move"
    types = _types("allocations")
    assert set(types) == set(MOVED)
    try:
        before = migrate_to(("allocations", None), ("jobs", "0010_field_names"))
        assert _rows(before.get_model("jobs", "Allocation").objects) == rows
        assert _types("jobs") == types
    finally:
        migrate_to_newest()
    assert _rows(Allocation.objects) == rows
    assert _types("allocations") == types


def _rows(manager: Any) -> list[tuple[Any, ...]]:
    return sorted(manager.values_list(*COLUMNS))


def _types(app: str) -> dict[str, int]:
    rows = ContentType.objects.filter(app_label=app, model__in=MOVED)
    return dict(rows.values_list("model", "pk"))
