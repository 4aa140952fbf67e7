"""The sweep, every few seconds: makes lost bells harmless, acts on what only time brings about."""

import logging
from datetime import datetime, timedelta
from functools import cache

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.audit.transitions import advance
from portal.diagnosis.services import due_attempts, due_jobs
from portal.gang_networks.services import gang_networks_release
from portal.inventory.models import HelloNonce
from portal.job_services.drive import services_drive
from portal.jobs.absent_ranks import unjoined_gangs_stop, unready_gangs_stop
from portal.jobs.lifecycle import job_rollup, job_stop
from portal.jobs.models import Dependency, Job, StopReason
from portal.jobs.querysets import values_of
from portal.jobs.rollups import jobs_behind_replicas
from portal.live.bell import ring, ring_diagnoses, ring_plan
from portal.node_pairs.services import pair_measurements_collect
from portal.planning.changes import changes_purge
from portal.preflights.results import preflights_collect
from portal.submission.limits import request_limits
from scheduler.core.model.states import JOB_WAITING, JobStatus
from scheduler.sites.reconcile import sites_drive, sites_observe

log = logging.getLogger(__name__)

NONCE_RETENTION = timedelta(minutes=10)


def sweep() -> None:
    """One round. A step that fails does not stop the next ones."""
    now = timezone.now()
    for step in STEPS:
        try:
            step(now)
        except Exception:
            log.exception("sweep step %s failed", step.__name__)
    # The last task may have been lost with a worker that was killed before it began.
    ring_plan(repeat=True)


def _dependencies(now: datetime) -> None:
    """End waiting jobs that depend on a job that did not succeed, and those that depend on them.

    Jobs whose begin time or dependencies have come are found by the planner, which every sweep
    rings.
    """
    while True:
        failed = Dependency.objects.failed().filter(from_job__status__in=values_of(JOB_WAITING))
        stuck = failed.order_by("from_job").values_list("from_job", flat=True).distinct()
        ended = [_dependency_failed(pk) for pk in stuck]
        if True not in ended:
            return


def _dependency_failed(pk: int) -> bool:
    with transaction.atomic():
        job = next(iter(Job.objects.waiting().filter(pk=pk).lock_rows()), None)
        failed = Dependency.objects.failed().filter(from_job=pk).select_related("to_job")
        first = failed.order_by("to_job").first() if job else None
        if job is None or first is None:
            return False
        before = first.to_job
        advance(
            job,
            JobStatus.FAILED,
            code=StopReason.DEPENDENCY,
            message=Message(
                "%(job)s, which had to succeed first, ended as %(status)s",
                job=before.label,
                status=Message(before.status),
            ),
            stop_reason=StopReason.DEPENDENCY,
            finished_at=timezone.now(),
            position=None,
            reserved_at=None,
        )
        Job.objects.filter(pk=pk).update(reason=None)
        ring(f"job:{pk}")
        return True


def _deadlines(now: datetime) -> None:
    due = Job.objects.filter(status=JobStatus.RUNNING, deadline_at__lt=now)
    for pk in due.values_list("pk", flat=True):
        _stop(pk, JobStatus.RUNNING, StopReason.TIMED_OUT, Message("it reached its time limit"))


def _absent_ranks(now: datetime) -> None:
    limits = settings.PLATFORM
    unready_gangs_stop(now=now, limit_seconds=limits.prepare_timeout_seconds)
    unjoined_gangs_stop(now=now, limit_seconds=limits.rendezvous_timeout_seconds)


def _stop(pk: int, status: JobStatus, stop_reason: StopReason, message: Message) -> None:
    with transaction.atomic():
        for job in Job.objects.filter(pk=pk, status=status).lock_rows():
            job_stop(job=job, stop_reason=stop_reason, message=message)
            ring(f"job:{pk}")


def _rollups(now: datetime) -> None:
    for pk in jobs_behind_replicas():
        job_rollup(job_id=pk)


def _gang_networks(now: datetime) -> None:
    gang_networks_release()


def _pair_measurements(now: datetime) -> None:
    pair_measurements_collect(now=now)


def _preflights(now: datetime) -> None:
    preflights_collect(now=now)


def _services(now: datetime) -> None:
    services_drive(now=now, limits=cache(request_limits))


def _diagnoses(now: datetime) -> None:
    """Diagnose what a lost ring has missed, and what failed before the end of its log arrived."""
    if due_jobs() or due_attempts():
        ring_diagnoses()


def _tidy(now: datetime) -> None:
    HelloNonce.objects.filter(seen_at__lt=now - NONCE_RETENTION).delete()
    changes_purge(now)


STEPS = (
    sites_observe,
    _deadlines,
    _absent_ranks,
    _rollups,
    _dependencies,
    sites_drive,
    _gang_networks,
    _pair_measurements,
    _preflights,
    _services,
    _diagnoses,
    _tidy,
)
