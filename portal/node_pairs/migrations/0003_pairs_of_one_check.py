"""One check may measure several pairs."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0030_attempt_preflight'),
        ('node_pairs', '0002_measured_by_attempts'),
    ]

    operations = [
        migrations.AlterField(
            model_name='pairmeasurement',
            name='attempt',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='pair_measurements', to='jobs.attempt'),
        ),
    ]
