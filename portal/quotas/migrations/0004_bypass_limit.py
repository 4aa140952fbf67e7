from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0003_warm_slices"),
    ]

    operations = [
        migrations.AlterField(
            model_name="plannerpolicy",
            name="bypass_limit",
            field=models.PositiveIntegerField(default=10000),
        ),
    ]
