from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0002_models_borrowing_budgets_policy"),
    ]

    operations = [
        migrations.AddField(
            model_name="plannerpolicy",
            name="warm",
            field=models.BooleanField(default=False),
        ),
    ]
