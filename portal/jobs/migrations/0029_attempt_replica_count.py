"""How many of its job's replicas an attempt was placed with."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0028_attempt_egress'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='replica_count',
            field=models.PositiveSmallIntegerField(editable=False, null=True),
        ),
    ]
