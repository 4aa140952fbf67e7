"""Measurements of pairs by checks of gangs, beside those that admins start."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0030_attempt_preflight'),
        ('node_pairs', '0001_pair_measurements'),
    ]

    operations = [
        migrations.AlterField(
            model_name='pairmeasurement',
            name='job',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='pair_measurement', to='jobs.job'),
        ),
        migrations.AddField(
            model_name='pairmeasurement',
            name='attempt',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='pair_measurement', to='jobs.attempt'),
        ),
        migrations.AddConstraint(
            model_name='pairmeasurement',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('attempt__isnull', True), ('job__isnull', False)), models.Q(('attempt__isnull', False), ('job__isnull', True)), _connector='OR'), name='pair_of_one_job'),
        ),
    ]
