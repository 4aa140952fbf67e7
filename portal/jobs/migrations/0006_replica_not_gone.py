"""Driving a node looks at the replicas that it still has, not at all it ever had."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0005_disk'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='replica',
            index=models.Index(
                condition=models.Q(('gone_revision__isnull', True)),
                fields=['node'],
                name='replica_not_gone',
            ),
        ),
    ]
