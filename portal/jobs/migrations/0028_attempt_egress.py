"""What an attempt reaches beyond its gang: as its project said when it was placed."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0027_joined_replicas'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='egress',
            field=models.CharField(choices=[('all', 'all'), ('internet', 'internet'), ('none', 'none')], db_default='all', default='all', editable=False, max_length=16),
        ),
    ]
