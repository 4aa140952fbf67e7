"""Attempts that check the network of their gang, and how long nodes of an attempt were away."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0029_attempt_replica_count'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='preflight',
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='attempt',
            name='absent_seconds',
            field=models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
    ]
