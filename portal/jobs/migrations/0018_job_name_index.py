from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0017_failure_cause")]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["name"], name="job_name", opclasses=("varchar_pattern_ops",)
            ),
        ),
    ]
