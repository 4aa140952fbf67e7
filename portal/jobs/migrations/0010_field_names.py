from django.db import migrations, models


class Migration(migrations.Migration):
    """New names in Python; the columns keep theirs."""

    dependencies = [("jobs", "0009_no_idempotency_key")]

    operations = [
        migrations.AlterField(
            model_name="job",
            name="replicas_wanted",
            field=models.PositiveSmallIntegerField(db_column="replicas_wanted"),
        ),
        migrations.RenameField("job", "replicas_wanted", "replica_count"),
        migrations.AlterField(
            model_name="job",
            name="held_by",
            field=models.CharField(
                blank=True, db_column="held_by", default="", editable=False, max_length=150
            ),
        ),
        migrations.RenameField("job", "held_by", "hold_owner"),
        migrations.AlterField(
            model_name="job",
            name="held_because",
            field=models.CharField(
                blank=True, db_column="held_because", default="", editable=False, max_length=200
            ),
        ),
        migrations.RenameField("job", "held_because", "hold_reason"),
        migrations.AlterField(
            model_name="replica",
            name="wish",
            field=models.CharField(
                choices=[
                    ("prepare", "Prepare"),
                    ("run", "Run"),
                    ("stop", "Stop"),
                    ("gone", "Gone"),
                ],
                db_column="wish",
                default="prepare",
                max_length=8,
            ),
        ),
        migrations.RenameField("replica", "wish", "desired_state"),
        migrations.AlterModelOptions(name="startestimate", options={}),
        migrations.AlterField(
            model_name="startestimate",
            name="asked_at",
            field=models.DateTimeField(db_column="asked_at"),
        ),
        migrations.RenameField("startestimate", "asked_at", "estimated_at"),
        migrations.AlterModelOptions(
            name="startestimate", options={"ordering": ("job", "estimated_at")}
        ),
    ]
