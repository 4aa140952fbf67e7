"""Gangs of which a rank does not come: it is not ready in time, or never starts beside the others.

Their devices are released, and they are tried again if a retry for infrastructure is left. A rank
whose node falls silent has its whole time again from then, and once more when the node is back, but
only as long as all absences together are shorter than that time: nodes may come and go for ever."""

from datetime import datetime, timedelta

from django.db import transaction

from agents.contract.message import Message
from portal.jobs.failure_causes import GangFailure
from portal.jobs.gang_faults import faulty_gang_stop
from portal.jobs.models import OWN_NODES, Attempt, DesiredState, Job, Replica
from portal.jobs.querysets import gang_filter, values_of
from scheduler.core.model.states import NODE_SILENT, JobStatus, NodeStatus, ReplicaStatus

EARLY = (JobStatus.PLACED, JobStatus.PREPARING)
UNSTARTED = (ReplicaStatus.PENDING, ReplicaStatus.PREPARING, ReplicaStatus.READY)
ABSENT = {GangFailure.NOT_READY: UNSTARTED[:2], GangFailure.NEVER_JOINED: UNSTARTED}


def unready_gangs_stop(*, now: datetime, limit_seconds: int) -> None:
    """The time counts from the start of the attempt, and again from each step of a pull or of a
    fetch of its files: both may be large, and slow."""
    since = now - timedelta(seconds=limit_seconds)
    late = Attempt.objects.open().filter(job__status__in=values_of(EARLY), created_at__lt=since)
    late = late.exclude(replicas__pull_moved_at__gte=since)
    # Its limit counts from the start of its ranks (`portal/preflights/`).
    late = late.exclude(preflight__isnull=False, replicas__started_at__isnull=False)
    for pk in late.values_list("pk", flat=True):
        _stop(pk, GangFailure.NOT_READY, values_of(EARLY), now, limit_seconds)


def unjoined_gangs_stop(*, now: datetime, limit_seconds: int) -> None:
    """Of a gang that was told to start, the first rank waits for the others from its start on."""
    since = now - timedelta(seconds=limit_seconds)
    late = Attempt.objects.open().filter(
        gang_filter(),
        site=OWN_NODES,
        job__status=JobStatus.RUNNING,
        job__started_at__lt=since,
        replicas__status__in=values_of(UNSTARTED),
        replicas__desired_state=DesiredState.RUN,
    )
    for pk in late.values_list("pk", flat=True).distinct():
        _stop(pk, GangFailure.NEVER_JOINED, [JobStatus.RUNNING], now, limit_seconds)


def _stop(
    attempt_id: int, code: GangFailure, statuses: list[str], now: datetime, limit_seconds: int
) -> None:
    """Unless it got further, or ended, meanwhile, or no rank has had its time."""
    limit = timedelta(seconds=limit_seconds)
    with transaction.atomic():
        open_one = Attempt.objects.open().filter(pk=attempt_id).values("job")
        for job in Job.objects.filter(pk__in=open_one, status__in=statuses).lock_rows():
            ranks = Replica.objects.filter(attempt=attempt_id).select_related(
                "node", "attempt__job"
            )
            absent = [r for r in ranks if ReplicaStatus(r.status) in ABSENT[code]]
            if not absent and code is GangFailure.NOT_READY:
                # Its ranks are all ready, but not with the same image: it waits for rank 0.
                absent = [ranks[0]]
            late = next((rank for rank in absent if _had_its_time(rank, now, limit)), None)
            if late is None:
                return
            message = _message(code, late, limit_seconds)
            faulty_gang_stop(job=job, rank=late, code=code, message=message)


def _had_its_time(rank: Replica, now: datetime, limit: timedelta) -> bool:
    """Whether nothing has kept its node from us for so long. A node that stays away does not get
    its time again and again: what counts is when it fell silent. Nor does one that comes and goes:
    what counts is how long nodes of the attempt were away in all."""
    node, begun = rank.node, rank.attempt.silent_since
    if timedelta(seconds=rank.attempt.absent_seconds) >= limit:
        return True
    if node is not None and NodeStatus(node.status) not in NODE_SILENT:
        begun = node.contact_since
    elif node is not None and begun is None:
        return False  # it has just fallen silent, which the next round notes
    return begun is None or begun < now - limit


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
