from django.db import migrations


class Migration(migrations.Migration):
    """portal.idempotency alone keeps idempotency keys."""

    dependencies = [("jobs", "0008_job_counts")]

    operations = [
        migrations.RemoveConstraint(model_name="job", name="job_idempotency_once"),
        migrations.RemoveField(model_name="job", name="idempotency_key"),
    ]
