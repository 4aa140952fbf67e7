import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


MODELS = ("allocation", "allocationsample")


def content_types_move(apps, schema_editor, source="jobs", target="allocations"):
    """Permissions and log entries refer to the content types, so they move with them."""
    rows = apps.get_model("contenttypes", "ContentType").objects.using(
        schema_editor.connection.alias
    )
    for model in MODELS:
        if not rows.filter(app_label=target, model=model).exists():
            rows.filter(app_label=source, model=model).update(app_label=target)


def content_types_move_back(apps, schema_editor):
    content_types_move(apps, schema_editor, "allocations", "jobs")


class Migration(migrations.Migration):
    """The models come from portal.jobs, with the tables that they had there."""

    dependencies = [
        ("contenttypes", "0002_remove_content_type_name"),
        ("accounts", "0004_directory_id"),
        ("inventory", "0008_field_names"),
        ("jobs", "0011_allocations_moved"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Allocation",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("units", models.PositiveIntegerField()),
                        ("cpu_milli", models.PositiveIntegerField(default=0)),
                        ("memory_mib", models.PositiveIntegerField(default=0)),
                        ("used_seconds", models.PositiveBigIntegerField(default=0)),
                        (
                            "status",
                            models.CharField(
                                choices=[
                                    ("reserved", "reserved"),
                                    ("bound", "bound"),
                                    ("releasing", "releasing"),
                                    ("released", "released"),
                                ],
                                default="reserved",
                                editable=False,
                                max_length=16,
                            ),
                        ),
                        ("reserved_at", models.DateTimeField()),
                        ("bound_at", models.DateTimeField(blank=True, null=True)),
                        ("released_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="allocations",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "replica",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="allocations",
                                to="jobs.replica",
                            ),
                        ),
                        (
                            "slice",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="allocations",
                                to="inventory.slice",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="allocations",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "db_table": "jobs_allocation",
                        "ordering": ("reserved_at",),
                    },
                ),
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
                                to="allocations.allocation",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "jobs_allocationsample",
                        "ordering": ("allocation", "minute"),
                    },
                ),
                migrations.AddIndex(
                    model_name="allocation",
                    index=models.Index(fields=["released_at"], name="allocation_released"),
                ),
                migrations.AddConstraint(
                    model_name="allocation",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ["reserved", "bound", "releasing", "released"])
                        ),
                        name="allocation_status",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="allocation",
                    constraint=models.UniqueConstraint(
                        condition=models.Q(("status__in", ["bound", "releasing", "reserved"])),
                        fields=("slice",),
                        name="slice_allocated_once",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="allocation",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            ("released_at__isnull", True),
                            ("released_at__gte", models.F("reserved_at")),
                            _connector="OR",
                        ),
                        name="allocation_interval",
                    ),
                ),
                migrations.AddIndex(
                    model_name="allocationsample",
                    index=models.Index(fields=["minute"], name="sample_minute"),
                ),
                migrations.AddConstraint(
                    model_name="allocationsample",
                    constraint=models.UniqueConstraint(
                        fields=("allocation", "minute"), name="sample_once_a_minute"
                    ),
                ),
            ]
        ),
        migrations.RunPython(content_types_move, content_types_move_back),
    ]
