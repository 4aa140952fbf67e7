from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0013_sites")]

    operations = [
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", True)),
                fields=["site"],
                name="attempt_open",
            ),
        ),
    ]
