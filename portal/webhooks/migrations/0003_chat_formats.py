from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0004_directory_id'),
        ('webhooks', '0002_off_reason'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='endpoint',
            name='format',
            field=models.CharField(choices=[('signed', 'signed'), ('slack', 'slack'), ('mattermost', 'mattermost'), ('discord', 'discord'), ('teams', 'teams')], db_default='signed', default='signed', max_length=12),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='sealed_url',
            field=models.TextField(blank=True, db_default='', default='', editable=False),
        ),
        migrations.AddConstraint(
            model_name='endpoint',
            constraint=models.CheckConstraint(condition=models.Q(('format__in', ['signed', 'slack', 'mattermost', 'discord', 'teams'])), name='endpoint_format'),
        ),
    ]
