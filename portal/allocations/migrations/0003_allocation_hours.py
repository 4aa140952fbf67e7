import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('allocations', '0002_devices_of_sites'),
    ]

    operations = [
        migrations.CreateModel(
            name='AllocationHour',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('hour', models.DateTimeField()),
                ('minutes', models.PositiveSmallIntegerField()),
                ('active_percent', models.PositiveSmallIntegerField(null=True)),
                ('memory_used_mib', models.PositiveIntegerField(null=True)),
                ('memory_total_mib', models.PositiveIntegerField(null=True)),
                ('temperature_c', models.SmallIntegerField(null=True)),
                ('power_mw', models.PositiveIntegerField(null=True)),
                ('why', models.JSONField(default=dict)),
                ('allocation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='hours', to='allocations.allocation')),
            ],
            options={
                'ordering': ('allocation', 'hour'),
                'indexes': [models.Index(fields=['hour'], name='sample_hour')],
                'constraints': [models.UniqueConstraint(fields=('allocation', 'hour'), name='sample_once_an_hour')],
            },
        ),
    ]
