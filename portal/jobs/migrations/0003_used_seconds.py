"""Fills what earlier allocations lack: the whole seconds they were used, and their CPU and memory."""

from datetime import timedelta

from django.db import migrations


def fill(apps, schema_editor):
    rows = apps.get_model("jobs", "Allocation").objects.select_related("replica__attempt__job")
    seen = None
    for row in rows.order_by("replica_id", "id").iterator(chunk_size=2_000):
        if row.bound_at and row.released_at:
            row.used_seconds = max(0, (row.released_at - row.bound_at) // timedelta(seconds=1))
        if row.replica_id != seen:
            job = row.replica.attempt.job
            row.cpu_milli, row.memory_mib = job.cpu_milli, job.memory_mib
        seen = row.replica_id
        row.save(update_fields=["used_seconds", "cpu_milli", "memory_mib"])


class Migration(migrations.Migration):

    dependencies = [("jobs", "0002_time_and_preemption")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
