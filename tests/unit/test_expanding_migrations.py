"""The rule of docs/contributing.md for migrations: expand, and contract a version later."""

import pytest
from django.apps import apps
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState

from tests.support.expanding_migrations import problems

# The last migration of each app before the rule: nobody upgrades from before them side by side.
BEFORE_THE_RULE = {
    "accounts": 4,
    "allocations": 2,
    "audit": 2,
    "availability": 1,
    "catalogue": 2,
    "duties": 3,
    "idempotency": 2,
    "inventory": 15,
    "jobs": 15,
    "planning": 1,
    "quotas": 4,
    "storage": 1,
    "usage": 1,
    "webhooks": 2,
    "what_if": 4,
}
# Migrations that take away what no version still uses, and the version that stopped using it. The
# portal before it must not run beside the one with the migration.
CONTRACTIONS: dict[tuple[str, str], str] = {}

NUMBERED = slice(0, 4)


def own_migrations():
    """Those after the rule, each with the models as they were without it."""
    loader = MigrationLoader(None)
    ours = {app.label for app in apps.get_app_configs() if app.name.startswith("portal.")}
    for key, migration in sorted(loader.disk_migrations.items()):
        label, name = key
        if label in ours and int(name[NUMBERED]) > BEFORE_THE_RULE.get(label, 0):
            yield key, migration, loader.project_state(key, at_end=False)


def test_each_migration_leaves_the_version_before_able_to_serve():
    found = {
        key: sentences
        for key, migration, before in own_migrations()
        if (sentences := problems(migration, before)) and key not in CONTRACTIONS
    }
    assert found == {}, "expand now, and contract in the next version: docs/contributing.md"


def test_the_list_of_contractions_has_only_migrations_that_need_it():
    needing = {key for key, migration, before in own_migrations() if problems(migration, before)}
    assert set(CONTRACTIONS) <= needing


BEFORE = ProjectState()
BEFORE.add_model(
    ModelState(
        "jobs",
        "Job",
        [
            ("id", models.BigAutoField(primary_key=True)),
            ("name", models.CharField(max_length=80)),
            ("note", models.TextField(null=True)),
            ("twin", models.OneToOneField("jobs.Job", models.CASCADE, null=True)),
        ],
    )
)
SHARED = models.ForeignKey("jobs.Job", models.CASCADE, null=True)


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (migrations.AddField("job", "a", models.IntegerField(null=True)), ""),
        (migrations.AddField("job", "a", models.IntegerField(db_default=0)), ""),
        (migrations.AddField("job", "a", models.IntegerField(default=0)), "inserts rows without"),
        (migrations.RemoveField("job", "note"), "still uses it"),
        (migrations.RenameField("job", "note", "remark"), "still uses it"),
        (migrations.DeleteModel("Job"), "still uses it"),
        (migrations.AlterField("job", "note", models.TextField()), "may write NULL"),
        (migrations.AlterField("job", "name", models.CharField(max_length=40)), "longer text"),
        (migrations.AlterField("job", "name", models.CharField(max_length=90)), ""),
        (migrations.AlterField("job", "name", models.IntegerField()), "another type"),
        (migrations.AlterField("job", "twin", SHARED), ""),
    ],
)
def test_what_the_version_before_cannot_live_with_is_named(operation, problem):
    migration = migrations.Migration("0002_x", "jobs")
    migration.operations = [operation]
    found = problems(migration, BEFORE)
    assert len(found) == bool(problem)
    assert problem in "".join(found)
