from django.db import migrations, models


class Migration(migrations.Migration):
    """New names in Python; the table and its columns stay as they are."""

    dependencies = [("idempotency", "0001_kept_answers")]

    operations = [
        migrations.AlterModelTable(name="keptanswer", table="idempotency_keptanswer"),
        migrations.RenameModel(old_name="KeptAnswer", new_name="IdempotencyRecord"),
        migrations.AlterField(
            model_name="idempotencyrecord",
            name="asked",
            field=models.CharField(db_column="asked", max_length=64),
        ),
        migrations.RenameField(
            model_name="idempotencyrecord", old_name="asked", new_name="request_digest"
        ),
    ]
