"""Work under a lease that ran out of time leaves what its next round goes on from."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("duties", "0002_task_lease")]

    operations = [
        migrations.AddField(
            model_name="tasklease",
            name="continuation",
            field=models.JSONField(blank=True, null=True),
        ),
    ]
