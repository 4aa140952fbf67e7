"""When waiting jobs will start, and what earlier answers are corrected by; which replicas ended
before they were told to stop."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0003_used_seconds'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='estimate',
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='startestimate',
            name='calibrated',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='startestimate',
            name='kind',
            field=models.CharField(blank=True, default='', max_length=64),
        ),
        migrations.AddField(
            model_name='startestimate',
            name='own',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='replica',
            name='stop_revision',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='replica',
            name='ended_unasked',
            field=models.BooleanField(default=False),
        ),
    ]
