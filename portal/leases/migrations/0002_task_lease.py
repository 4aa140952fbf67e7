"""Rename the model to TaskLease. The table keeps its name: nothing changes in the database."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("duties", "0001_initial")]

    operations = [
        migrations.AlterModelTable(name="duty", table="duties_duty"),
        migrations.RenameModel(old_name="Duty", new_name="TaskLease"),
        migrations.AlterModelOptions(name="tasklease", options={}),
    ]
