"""`requester` was `asked_by`; the column keeps its name."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("what_if", "0002_cancelled")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("whatif", "asked_by", "requester"),
                migrations.AlterField(
                    model_name="whatif",
                    name="requester",
                    field=models.ForeignKey(
                        db_column="asked_by_id",
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="what_ifs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ]
        )
    ]
