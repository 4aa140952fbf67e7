"""The task that looks for idle jobs and gangs without progress, one worker at a time."""

from django.conf import settings
from django.utils import timezone

from portal.celery import app
from portal.idle.hang_limits import HungLimits
from portal.idle.hung import hung_gangs_sweep
from portal.idle.services import idle_jobs_sweep
from portal.leases.services import run_exclusively


@app.task(name="portal.idle.tasks.sweep")
def sweep() -> bool:
    return run_exclusively(name="idle", work=_round, rounds=1)


def _round() -> None:
    now, knobs = timezone.now(), settings.PLATFORM
    idle_jobs_sweep(now)
    hung_gangs_sweep(now=now, limits=HungLimits(knobs.hung_warn_minutes, knobs.hung_stop_minutes))
