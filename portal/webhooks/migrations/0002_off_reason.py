"""A new name of a field in Python; the column keeps its name. Nothing changes in the database."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0001_endpoints_and_deliveries")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="endpoint",
                    name="off_because",
                    field=models.CharField(
                        blank=True, db_column="off_because", default="", max_length=200
                    ),
                ),
                migrations.RenameField(
                    model_name="endpoint", old_name="off_because", new_name="off_reason"
                ),
            ]
        )
    ]
