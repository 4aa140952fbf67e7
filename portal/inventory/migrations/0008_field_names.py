"""New names of fields in Python; the columns keep theirs. Nothing changes in the database."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


def renamed(model_name, old_name, new_name, field):
    return [
        migrations.AlterField(model_name=model_name, name=old_name, field=field),
        migrations.RenameField(model_name=model_name, old_name=old_name, new_name=new_name),
    ]


class Migration(migrations.Migration):
    dependencies = [("inventory", "0007_disk")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                *renamed(
                    "node",
                    "cordon_by",
                    "cordon_actor",
                    models.CharField(blank=True, db_column="cordon_by", default="", max_length=150),
                ),
                *renamed(
                    "gpu",
                    "pinned_by",
                    "pin_actor",
                    models.CharField(
                        blank=True, db_column="pinned_by", default="", editable=False, max_length=150
                    ),
                ),
                *renamed(
                    "gpu",
                    "pinned_because",
                    "pin_reason",
                    models.CharField(
                        blank=True,
                        db_column="pinned_because",
                        default="",
                        editable=False,
                        max_length=200,
                    ),
                ),
                migrations.RemoveConstraint(model_name="gpu", name="gpu_shares_alone"),
                *renamed(
                    "gpu",
                    "shared_by",
                    "sharing_project",
                    models.ForeignKey(
                        blank=True,
                        db_column="shared_by_id",
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="accounts.project",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="gpu",
                    constraint=models.CheckConstraint(
                        condition=Q(shared_threads=0, sharing_project=None)
                        | Q(
                            shared_threads__gt=0,
                            sharing_project__isnull=False,
                            desired_mode="mps",
                        ),
                        name="gpu_shares_alone",
                    ),
                ),
            ]
        )
    ]
