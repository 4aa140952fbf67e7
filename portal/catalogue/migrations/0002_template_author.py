"""A new name of a field in Python; the column keeps its name. Nothing changes in the database."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalogue", "0001_templates_and_images")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="template",
                    name="made_by",
                    field=models.CharField(db_column="made_by", editable=False, max_length=150),
                ),
                migrations.RenameField(
                    model_name="template", old_name="made_by", new_name="author"
                ),
            ]
        )
    ]
