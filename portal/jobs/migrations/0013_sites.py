import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0008_field_names"),
        ("jobs", "0012_log_removed_at"),
    ]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="silent_since",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="attempt",
            name="site",
            field=models.CharField(
                db_default="own-nodes", default="own-nodes", editable=False, max_length=24
            ),
        ),
        migrations.AlterField(
            model_name="replica",
            name="node",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="replicas",
                to="inventory.node",
            ),
        ),
    ]
