"""Replicas of a gang on one node may share a container."""

from django.db import migrations, models


def drop_trigger(apps, schema_editor):
    """SQLite drops no column that a trigger names. Migrating makes those of the planner anew."""
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TRIGGER IF EXISTS jobs_attempt_update_replans")


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0026_code_commit'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='joined_replicas',
            field=models.PositiveSmallIntegerField(db_default=1, default=1, editable=False),
        ),
        # The last one is the first on the way back.
        migrations.RunPython(migrations.RunPython.noop, drop_trigger),
    ]
