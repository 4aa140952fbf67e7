from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0002_shares_and_caps'),
    ]

    operations = [
        migrations.AddField(
            model_name='project',
            name='approval_high',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='project',
            name='approval_unit_seconds',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
    ]
