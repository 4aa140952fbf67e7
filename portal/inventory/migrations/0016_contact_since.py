from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0015_holding'),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='contact_since',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
    ]
