"""The task that removes visits and tokens that are over, one worker at a time."""

import logging

from django.utils import timezone

from portal.apps.removal import app_access_remove
from portal.celery import app
from portal.leases.services import run_exclusively

log = logging.getLogger(__name__)


@app.task(name="portal.apps.tasks.remove")
def remove() -> bool:
    return run_exclusively(name="app_access", work=_round, rounds=1)


def _round() -> None:
    if removed := app_access_remove(now=timezone.now()):
        log.info("%s visits and tokens of apps that were over are removed", removed)
