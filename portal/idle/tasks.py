"""The task that looks for idle jobs, one worker at a time."""

from django.utils import timezone

from portal.celery import app
from portal.idle.services import idle_jobs_sweep
from portal.leases.services import run_exclusively


@app.task(name="portal.idle.tasks.sweep")
def sweep() -> bool:
    return run_exclusively(name="idle", work=lambda: idle_jobs_sweep(timezone.now()), rounds=1)
