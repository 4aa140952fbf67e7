"""A what-if may be cancelled."""

from django.db import migrations, models

STATUSES = ["asked", "running", "done", "failed", "cancelled"]


class Migration(migrations.Migration):
    dependencies = [("what_if", "0001_initial")]

    operations = [
        migrations.RemoveConstraint(model_name="whatif", name="what_if_status"),
        migrations.AlterField(
            model_name="whatif",
            name="status",
            field=models.CharField(
                choices=[(each, each.capitalize()) for each in STATUSES],
                default="asked",
                max_length=9,
            ),
        ),
        migrations.AddConstraint(
            model_name="whatif",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", STATUSES)), name="what_if_status"
            ),
        ),
    ]
