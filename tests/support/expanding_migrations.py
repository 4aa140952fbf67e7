"""Whether a migration only adds what code that does not know it can live with.

During an upgrade the code of the version before serves on the new database, so a column that it
writes or reads must stay, and one that it does not know must do without its value.
"""

from collections.abc import Iterator

from django.db.migrations import Migration
from django.db.migrations.operations import (
    AddField,
    AlterField,
    AlterModelTable,
    DeleteModel,
    RemoveField,
    RenameField,
    RenameModel,
)
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Field, ForeignKey, OneToOneField
from django.db.models.fields import NOT_PROVIDED

TAKES_AWAY = (RemoveField, DeleteModel, RenameField, RenameModel, AlterModelTable)


def problems(migration: Migration, before: ProjectState) -> list[str]:
    """A sentence for each operation that the code of the version before cannot live with.

    `before`: the models without this migration.
    """
    state, found = before.clone(), []
    for operation in migration.operations:
        # A table that is made here is not known to the old code.
        name = getattr(operation, "model_name_lower", "")
        if not name or (migration.app_label, name) in before.models:
            found += [
                f"{operation.describe()}: {why}"
                for why in _reasons(operation, state, migration.app_label)
            ]
        operation.state_forwards(migration.app_label, state)
        state = state.clone()
    return found


def _reasons(operation: Operation, state: ProjectState, label: str) -> Iterator[str]:
    if isinstance(operation, TAKES_AWAY):
        yield "the old code still uses it"
    if isinstance(operation, AddField) and not _fills_itself(operation.field):
        yield "the old code inserts rows without it: make it nullable, or give it a db_default"
    if isinstance(operation, AlterField):
        before = state.models[label, operation.model_name_lower].fields[operation.name]
        yield from _narrowed(before, operation.field)


def _fills_itself(field: Field) -> bool:
    """Whether a row inserted without it is accepted. A `default` is Django's: it does not stay in
    the database. A many-to-many field is a table of its own."""
    return field.null or field.many_to_many or field.db_default is not NOT_PROVIDED


def _narrowed(before: Field, after: Field) -> Iterator[str]:
    if before.null and not after.null:
        yield "the old code may write NULL"
    # The same column; several rows may now name one.
    is_shared = type(before) is OneToOneField and type(after) is ForeignKey
    if type(before) is not type(after) and not is_shared:
        yield "the old code writes another type"
    if (after.max_length or 1 << 30) < (before.max_length or 1 << 30):
        yield "the old code may write a longer text"
