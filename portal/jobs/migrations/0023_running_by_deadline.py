"""Running jobs by when they end at the latest: the Queue page asks for the first of them, and for
what all of them free in the next hours."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0022_image_digest'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('status', 'running')), fields=['deadline_at', 'id'], name='job_running_end'),
        ),
    ]
