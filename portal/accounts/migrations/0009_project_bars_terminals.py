from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0008_no_token_scope_apps'),
    ]

    operations = [
        migrations.AddField(
            model_name='project',
            name='bars_terminals',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
