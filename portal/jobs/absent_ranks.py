"""Gangs of which a rank does not come: it is not ready in time, or never starts beside the others.

Their devices are released, and they are tried again if a retry for infrastructure is left."""

from datetime import datetime, timedelta

from django.db import transaction

from agents.contract.message import Message
from portal.jobs.failure_causes import GangFailure
from portal.jobs.gang_faults import faulty_gang_stop
from portal.jobs.models import OWN_NODES, Attempt, DesiredState, Job, Replica
from portal.jobs.querysets import gang_filter, values_of
from scheduler.core.model.states import JobStatus, ReplicaStatus

EARLY = (JobStatus.PLACED, JobStatus.PREPARING)
UNSTARTED = (ReplicaStatus.PENDING, ReplicaStatus.PREPARING, ReplicaStatus.READY)


def unready_gangs_stop(*, now: datetime, limit_seconds: int) -> None:
    """The time counts from the start of the attempt, and again from each step of a pull or of a
    fetch of its files: both may be large, and slow."""
    since = now - timedelta(seconds=limit_seconds)
    late = Attempt.objects.open().filter(job__status__in=values_of(EARLY), created_at__lt=since)
    late = late.exclude(replicas__pull_moved_at__gte=since)
    for pk in late.values_list("pk", flat=True):
        _stop(pk, GangFailure.NOT_READY, UNSTARTED[:2], values_of(EARLY), limit_seconds)


def unjoined_gangs_stop(*, now: datetime, limit_seconds: int) -> None:
    """Of a gang that was told to start, the first rank waits for the others from its start on."""
    late = Attempt.objects.open().filter(
        gang_filter(),
        site=OWN_NODES,
        job__status=JobStatus.RUNNING,
        job__started_at__lt=now - timedelta(seconds=limit_seconds),
        replicas__status__in=values_of(UNSTARTED),
        replicas__desired_state=DesiredState.RUN,
    )
    for pk in late.values_list("pk", flat=True).distinct():
        _stop(pk, GangFailure.NEVER_JOINED, UNSTARTED, [JobStatus.RUNNING], limit_seconds)


def _stop(
    attempt_id: int,
    code: GangFailure,
    absent: tuple[ReplicaStatus, ...],
    statuses: list[str],
    limit_seconds: int,
) -> None:
    """Unless it got further, or ended, meanwhile."""
    with transaction.atomic():
        open_one = Attempt.objects.open().filter(pk=attempt_id).values("job")
        for job in Job.objects.filter(pk__in=open_one, status__in=statuses).lock_rows():
            ranks = Replica.objects.filter(attempt=attempt_id).select_related(
                "node", "attempt__job"
            )
            late = next((r for r in ranks if ReplicaStatus(r.status) in absent), None)
            if late is None and code is GangFailure.NEVER_JOINED:
                return
            # A gang whose ranks are all ready, but not with the same image, waits for rank 0.
            late = late or ranks[0]
            message = _message(code, late, limit_seconds)
            faulty_gang_stop(job=job, rank=late, code=code, message=message)


def _message(code: GangFailure, late: Replica, limit_seconds: int) -> Message:
    if code is GangFailure.NEVER_JOINED:
        return Message(
            "rank %(rank)s on %(node)s did not start within %(seconds)s s after the first rank",
            rank=late.rank,
            node=late.location,
            seconds=limit_seconds,
        )
    if late.attempt.world == 1:
        return Message(
            "it was not ready on %(node)s within %(seconds)s s",
            node=late.location,
            seconds=limit_seconds,
        )
    return Message(
        "rank %(rank)s on %(node)s was not ready within %(seconds)s s",
        rank=late.rank,
        node=late.location,
        seconds=limit_seconds,
    )
