import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0004_directory_id"),
        ("allocations", "0001_moved_from_jobs"),
        ("inventory", "0008_field_names"),
        ("jobs", "0013_sites"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="allocation",
            name="board",
            field=models.CharField(
                blank=True, db_default="", default="", editable=False, max_length=64
            ),
        ),
        migrations.AlterField(
            model_name="allocation",
            name="slice",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="allocations",
                to="inventory.slice",
            ),
        ),
        migrations.AddConstraint(
            model_name="allocation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("slice__isnull", False),
                    models.Q(("board", ""), _negated=True),
                    _connector="OR",
                ),
                name="allocation_device",
            ),
        ),
    ]
