"""Counting jobs by status, of projects or of an owner, reads an index and no row."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0007_allocation_samples'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['project', 'status'], name='job_project_status'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['owner', 'status'], name='job_owner_status'),
        ),
    ]
