"""At most one what-if runs. Of those that run now, the newest goes on and the others have failed."""

from django.db import migrations, models
from django.utils import timezone

CUT_OFF = "It was interrupted, or no worker started it. Submit it again"


def keep_one(apps, schema_editor):
    running = apps.get_model("what_if", "WhatIf").objects.filter(status="running")
    newest = running.order_by("-pk").values_list("pk", flat=True).first()
    running.exclude(pk=newest).update(
        status="failed", sentence=CUT_OFF, finished_at=timezone.now()
    )


class Migration(migrations.Migration):
    # PostgreSQL refuses to build an index on a table with changes that are not committed.
    atomic = False

    dependencies = [("what_if", "0003_requested_by")]

    operations = [
        migrations.RunPython(keep_one, migrations.RunPython.noop, atomic=True),
        migrations.AddConstraint(
            model_name="whatif",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status", "running")),
                fields=("status",),
                name="what_if_one_runs",
            ),
        ),
    ]
