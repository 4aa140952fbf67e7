"""A job may start after the end of another, whether or not that succeeds. The links were a table that
Django kept without a model; it stays, and gets a column."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0023_running_by_deadline'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='Dependency',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('from_job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='dependencies', to='jobs.job')),
                        ('to_job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='dependants', to='jobs.job')),
                    ],
                    options={
                        'db_table': 'jobs_job_after',
                        'unique_together': {('from_job', 'to_job')},
                    },
                ),
                migrations.AlterField(
                    model_name='job',
                    name='after',
                    field=models.ManyToManyField(blank=True, editable=False, related_name='followers', through='jobs.Dependency', to='jobs.job'),
                ),
            ],
        ),
        migrations.AddField(
            model_name='dependency',
            name='requires_success',
            field=models.BooleanField(db_default=True, default=True),
        ),
    ]
