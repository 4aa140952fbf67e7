from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0003_telemetry'),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='topology',
            field=models.JSONField(default=dict, editable=False),
        ),
    ]
