import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0006_replica_not_gone")]

    operations = [
        migrations.CreateModel(
            name="AllocationSample",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("minute", models.DateTimeField()),
                ("active_percent", models.PositiveSmallIntegerField(null=True)),
                ("memory_used_mib", models.PositiveIntegerField(null=True)),
                ("memory_total_mib", models.PositiveIntegerField(null=True)),
                ("temperature_c", models.SmallIntegerField(null=True)),
                ("power_mw", models.PositiveIntegerField(null=True)),
                ("why", models.JSONField(default=dict)),
                (
                    "allocation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="samples",
                        to="jobs.allocation",
                    ),
                ),
            ],
            options={
                "ordering": ("allocation", "minute"),
                "indexes": [models.Index(fields=["minute"], name="sample_minute")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("allocation", "minute"), name="sample_once_a_minute"
                    )
                ],
            },
        ),
    ]
