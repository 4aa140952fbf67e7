"""The task that removes what is kept long enough, one worker at a time."""

import logging

from django.conf import settings
from django.utils import timezone

from portal.celery import app
from portal.leases.services import run_exclusively
from portal.retention.audit_lines import audit_remove
from portal.retention.events import events_remove
from portal.retention.files import files_remove
from portal.retention.limits import RetentionLimits
from portal.retention.logs import logs_remove
from portal.storage.errors import StoreError
from portal.telemetry.sample_hours import samples_fold

log = logging.getLogger(__name__)


@app.task(name="portal.retention.tasks.remove")
def remove() -> bool:
    return run_exclusively(name="retention", work=retention_run, rounds=1)


def log_limits() -> RetentionLimits:
    platform = settings.PLATFORM
    return RetentionLimits(platform.log_retention_days, platform.log_retention_mib)


def event_limits() -> RetentionLimits:
    platform = settings.PLATFORM
    return RetentionLimits(platform.event_retention_days, platform.event_retention_mib)


def audit_limits() -> RetentionLimits:
    return RetentionLimits(settings.PLATFORM.audit_retention_days, 0)


def file_limits() -> RetentionLimits:
    return RetentionLimits(settings.PLATFORM.files_kept_days, 0)


def retention_run() -> None:
    """One batch of each kind. A store that does not answer delays only bytes."""
    now = timezone.now()
    if removed := files_remove(limits=file_limits(), now=now):
        log.info("retention removed the files of %s trees", removed)
    if removed := events_remove(limits=event_limits(), now=now):
        log.info("retention removed %s events", removed)
    if removed := audit_remove(limits=audit_limits(), now=now):
        log.info("retention removed %s audit lines", removed)
    if removed := samples_fold(now=now):
        log.info("retention made hours of %s samples of devices", removed)
    try:
        if removed := logs_remove(limits=log_limits(), now=now):
            log.info("retention removed %s logs", removed)
    except StoreError as error:
        log.warning("retention waits for the log store: %s", error)
