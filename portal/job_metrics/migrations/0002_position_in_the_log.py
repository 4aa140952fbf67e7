from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("job_metrics", "0001_series_and_positions")]

    operations = [
        migrations.AddField(
            model_name="metricsposition",
            name="log_offset",
            field=models.PositiveBigIntegerField(db_default=0, default=0),
        ),
    ]
