"""What becomes of a placed job: it follows its replicas, stops, ends or is queued again.

Called after what sites report, and by the sweeper. Every function re-reads its rows under lock and
may be called twice.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.audit.codes import EventCode
from portal.audit.transitions import SYSTEM, Transitions, event_record
from portal.database.intervals import SECOND
from portal.database.kept_queries import KeptSelect, ListOf
from portal.jobs.failures import failure_message
from portal.jobs.first_failures import cause_of_end, first_failure, is_lost_rank
from portal.jobs.images import with_other_image
from portal.jobs.models import Attempt, DesiredState, Job, Replica, StopReason
from portal.jobs.replica_ranges import has_several_sizes
from portal.jobs.rollups import (
    ENDS_NO_JOB,
    have_ended,
    is_behind,
    latest_attempts,
    may_go_on,
    outcome_of,
)
from portal.live.bell import ring, ring_diagnoses, ring_drive, ring_plan, ring_site
from scheduler.core.model.states import (
    JOB_ALLOCATED,
    JOB_FAILED,
    REPLICA_ENDED,
    AttemptState,
    JobStatus,
    ReplicaStatus,
)

# The job is asked to stop and goes back to the queue, unless it turns out to have succeeded.
MAKES_WAY = (StopReason.PREEMPTED, StopReason.RESIZED, StopReason.DRAINED)
# A job that starts again gets at least this much of its limit, however long it ran before.
MIN_SECONDS_LEFT = 60

FROM_CHECKPOINT = Message(
    "preempted: queued again at its original position. It goes on from its last checkpoint"
)
FROM_THE_START = Message(
    "preempted: queued again at its original position. It saved no checkpoint: it starts again "
    "from the beginning, with its whole time limit"
)

WITH_MORE = Message(
    "resized: queued again at its original position. It goes on from its last checkpoint, with as "
    "many replicas as are free"
)

# These ends of an attempt spend a retry, if one is left.
RETRIED = (StopReason.FAILED, StopReason.LOST, StopReason.DRAINED)

# Its node reports that a secret was deleted between its placement and its start.
SECRET_MISSING = "secret_missing"  # noqa: S105 - no secret

FINAL_STATUS: dict[str, JobStatus] = {
    StopReason.SUCCEEDED: JobStatus.SUCCEEDED,
    StopReason.CANCELLED: JobStatus.CANCELLED,
    StopReason.TIMED_OUT: JobStatus.TIMED_OUT,
    StopReason.IDLE: JobStatus.CANCELLED,
}


def job_rollup(*, job_id: int) -> None:
    """Advance a job to where its replicas are, and act on it: barrier, run, stop, end."""
    with transaction.atomic():
        jobs = Job.objects.filter(pk=job_id).lock_rows()
        replicas = Replica.objects.filter(attempt__in=latest_attempts(jobs))
        transitions = Transitions()
        jobs_rollup(
            jobs=jobs,
            replicas=replicas.select_related("attempt__job").lock_rows(),
            transitions=transitions,
        )
        transitions.write()


def jobs_rollup(
    *, jobs: Iterable[Job], replicas: Iterable[Replica], transitions: Transitions
) -> None:
    """`job_rollup` of several jobs. What changes is gathered in `transitions`, as are the moves of
    the replicas that brought it about.

    The caller has locked the jobs and then all replicas of their open attempts.
    """
    of_job: dict[int, list[Replica]] = defaultdict(list)
    for replica in replicas:
        of_job[replica.attempt.job_id].append(replica)
    rolled = []
    for job in jobs:
        # One that was ended by hand, in the database, must not have its node's reports fail.
        is_open = JobStatus(job.status) in JOB_ALLOCATED
        if is_open and (gang := of_job[job.pk]):
            _roll(job, gang[0].attempt, gang, transitions)
            ring(f"job:{job.pk}")
            rolled.append(job)
    _ring_plan_after(rolled)


_WAITING_FOR = KeptSelect(
    lambda jobs: Job.objects.waiting().filter(after__pk__in=jobs).values_list("pk", flat=True)[:1],
    ListOf(Job._meta.pk),
)


def _ring_plan_after(jobs: Iterable[Job]) -> None:
    """Ring planning if one of these is queued again, or if a job waits for the end of one. Devices
    are free later, when their node or site reports that nothing is left, which rings by itself."""
    ended = [job for job in jobs if JobStatus(job.status) not in JOB_ALLOCATED]
    is_queued = any(job.status == JobStatus.QUEUED for job in ended)
    if is_queued or (ended and _WAITING_FOR.rows([job.pk for job in ended])):
        ring_plan()


def job_stop(*, job: Job, stop_reason: StopReason, message: Message, actor: str = SYSTEM) -> None:
    """Begin to stop a placed job, locked by the caller. The first reason wins; but a job that would
    be queued again can still be cancelled."""
    cancels = stop_reason is StopReason.CANCELLED and job.stop_reason in MAKES_WAY
    if JobStatus(job.status) is JobStatus.STOPPING and cancels:
        Job.objects.filter(pk=job.pk).update(stop_reason=stop_reason)
        job.stop_reason = stop_reason
        event_record(job, stop_reason, message, actor=actor)
    attempt = job.attempts.latest("number")
    replicas = attempt.replicas.all().lock_rows()
    transitions = Transitions()
    _stop(job, attempt, replicas, transitions, stop_reason, message, actor)
    transitions.write()
    _ring_plan_after([job])


def _stop(
    job: Job,
    attempt: Attempt,
    replicas: list[Replica],
    transitions: Transitions,
    stop_reason: StopReason,
    message: Message,
    actor: str = SYSTEM,
) -> None:
    if JobStatus(job.status) is not JobStatus.STOPPING:
        transitions.advance(
            job,
            JobStatus.STOPPING,
            actor=actor,
            code=stop_reason,
            message=message,
            stop_reason=stop_reason,
        )
    ranks_stop(replicas, transitions)
    _finish_when_ended(job, attempt, replicas, transitions)


def ranks_stop(
    replicas: list[Replica], transitions: Transitions, *, keep_devices: bool = False
) -> None:
    """Have locked replicas end, whatever their job does. `keep_devices`: those of replicas that
    have not run, too, stay theirs until their attempt ends."""
    left = DesiredState.STOP if keep_devices else DesiredState.GONE
    for replica in replicas:
        _replica_stop(replica, transitions, left)
    ring_replicas(replicas)


def ring_replicas(replicas: Iterable[Replica]) -> None:
    """Have the sites of these replicas carry out what their rows want."""
    rows = list(replicas)
    ring_drive([row.node_id for row in rows if row.node_id])
    for site in sorted({row.attempt.site for row in rows if not row.node_id}):
        ring_site(site)


def _roll(job: Job, attempt: Attempt, replicas: list[Replica], transitions: Transitions) -> None:
    if not is_behind(job, replicas):
        return
    outcome = outcome_of(replicas)
    if JobStatus(job.status) is JobStatus.STOPPING:
        _finish_when_ended(job, attempt, replicas, transitions)
    elif attempt.is_preflight and outcome in ENDS_NO_JOB:
        _prepared(job, transitions)
        if outcome is AttemptState.FAILED:
            left = [replica for replica in replicas if may_go_on(replica)]
            ranks_stop(left, transitions, keep_devices=True)
    elif outcome in (AttemptState.FAILED, AttemptState.LOST):
        _fail(job, attempt, replicas, transitions)
    elif outcome is AttemptState.SUCCEEDED:
        _prepared(job, transitions)
        _running(job, replicas, transitions)
        job.stop_reason = StopReason.SUCCEEDED
        _end(job, attempt, replicas, transitions)
    elif outcome is AttemptState.READY:
        _prepared(job, transitions)
        _release_barrier(replicas, transitions)
    elif outcome is AttemptState.RUNNING:
        _prepared(job, transitions)
        _running(job, replicas, transitions)
    elif outcome is AttemptState.PREPARING:
        _prepared(job, transitions)


def _prepared(job: Job, transitions: Transitions) -> None:
    if JobStatus(job.status) is JobStatus.PLACED:
        transitions.advance(job, JobStatus.PREPARING)


def _running(job: Job, replicas: list[Replica], transitions: Transitions) -> None:
    if JobStatus(job.status) is not JobStatus.PREPARING:
        return
    started = min((r.started_at for r in replicas if r.started_at), default=timezone.now())
    deadline = started + timedelta(seconds=seconds_left(job))
    transitions.advance(job, JobStatus.RUNNING, started_at=started, deadline_at=deadline)


def seconds_left(job: Job) -> int:
    """How long its next attempt may run: what is left of its limit, at least MIN_SECONDS_LEFT."""
    left = job.time_limit_seconds - job.attained_seconds
    return min(job.time_limit_seconds, max(MIN_SECONDS_LEFT, left))


def _release_barrier(replicas: list[Replica], transitions: Transitions) -> None:
    """All replicas are ready: run them, with the rendezvous that rank 0 offered. Those with another
    image than rank 0 are prepared again first: its tag was moved between two pulls."""
    others = with_other_image(replicas)
    waiting = [r for r in replicas if r.desired_state == DesiredState.PREPARE]
    for replica in waiting if not others else ():
        transitions.set_columns(replica, desired_state=DesiredState.RUN)
    ring_replicas(others or waiting)


def _fail(job: Job, attempt: Attempt, replicas: list[Replica], transitions: Transitions) -> None:
    """Record the attempt's first failure, then stop the other replicas."""
    if any(replica.status == ReplicaStatus.EXITED for replica in replicas):
        # Of a short program, the first that is reported may be its end.
        _prepared(job, transitions)
        _running(job, replicas, transitions)
    first = first_failure(replicas, transitions)
    transitions.set_columns(attempt, first_failure=first)
    is_lost = first["status"] == ReplicaStatus.LOST
    stop_reason = StopReason.LOST if is_lost else StopReason.FAILED
    _stop(job, attempt, replicas, transitions, stop_reason, failure_message(first))


def _replica_stop(replica: Replica, transitions: Transitions, left: DesiredState) -> None:
    status = ReplicaStatus(replica.status)
    if status in REPLICA_ENDED:
        return
    if status is ReplicaStatus.RUNNING or _may_run(replica):
        transitions.set_columns(replica, desired_state=DesiredState.STOP)
        return
    transitions.advance(
        replica,
        ReplicaStatus.FAILED,
        code=EventCode.NEVER_STARTED,
        message=Message("stopped before it ran"),
        desired_state=left,
        finished_at=timezone.now(),
    )


def _may_run(replica: Replica) -> bool:
    """Its node may start it at any moment and report so later, much later if contact is lost
    meanwhile: another attempt before the node's word would be a second copy."""
    return replica.node_id is not None and replica.desired_state != DesiredState.PREPARE


def _finish_when_ended(
    job: Job, attempt: Attempt, replicas: list[Replica], transitions: Transitions
) -> None:
    if not have_ended(replicas):
        return
    if job.stop_reason in MAKES_WAY and not attempt.is_preflight and _succeeded(replicas):
        job.stop_reason = StopReason.SUCCEEDED
    _end(job, attempt, replicas, transitions)


def _succeeded(replicas: list[Replica]) -> bool:
    """Whether every replica ended with 0 before it was asked to stop: nothing is left to run. One
    that ends with 0 after that has only saved its work."""
    by_itself = all(r.ended_unasked for r in replicas)
    return by_itself and outcome_of(replicas) is AttemptState.SUCCEEDED


def _end(job: Job, attempt: Attempt, replicas: list[Replica], transitions: Transitions) -> None:
    """End the attempt: no node keeps its replicas, and the job ends or is queued again."""
    now = timezone.now()
    for replica in replicas:
        transitions.set_columns(replica, desired_state=DesiredState.GONE)
    cause = cause_of_end(attempt, replicas, transitions)
    transitions.set_columns(attempt, ended_at=now, outcome=job.stop_reason, first_failure=cause)
    if not _requeue(job, attempt, transitions):
        end = FINAL_STATUS.get(job.stop_reason, JobStatus.FAILED)
        failure = attempt.first_failure or {}
        transitions.advance(
            job,
            end,
            code=job.stop_reason,
            message=failure_message(failure),
            finished_at=now,
            stop_reason=job.stop_reason,
        )
        if end in JOB_FAILED:
            ring_diagnoses()
    ring_replicas(replicas)


def _requeue(job: Job, attempt: Attempt, transitions: Transitions) -> bool:
    """Queue it again, at its old position, if it was preempted or a retry is left. Its limit counts
    what it ran until it last saved: of a job without a checkpoint, nothing."""
    if job.stop_reason == StopReason.PREEMPTED:
        return _requeue_preempted(job, attempt, transitions)
    if job.stop_reason == StopReason.RESIZED:
        attained = _attained_seconds(job, attempt)
        _queue_again(job, transitions, StopReason.RESIZED, WITH_MORE, attained_seconds=attained)
        return True
    if job.stop_reason not in RETRIED:
        return False
    failure = attempt.first_failure or {}
    why = failure_message(failure)
    if attempt.is_preflight:
        message = Message("%(why)s. Queued again; the network check spends no retry", why=why)
        _queue_again(job, transitions, EventCode.RETRY, message)
        ring_diagnoses()
        return True
    if failure.get("code") == SECRET_MISSING:
        # It never started. The planner keeps it until the secret is set again.
        message = Message("%(why)s. Queued again until it is set", why=why)
        _queue_again(job, transitions, EventCode.RETRY, message)
        return True
    attained = _attained_seconds(job, attempt)
    if _may_shrink(job, attempt, failure):
        message = Message(
            "%(why)s. Queued again for as many replicas as are free; as it has saved since it "
            "started, this spends no retry",
            why=why,
        )
        _queue_again(job, transitions, EventCode.RETRY, message, attained_seconds=attained)
        ring_diagnoses()
        return True
    is_user = failure.get("status") == ReplicaStatus.EXITED
    column = "user_retries_left" if is_user else "infrastructure_retries_left"
    left = getattr(job, column)
    if left < 1:
        return False
    message = Message("%(why)s. Queued again, %(left)s retries left", why=why, left=left - 1)
    columns = {column: left - 1, "attained_seconds": attained}
    _queue_again(job, transitions, EventCode.RETRY, message, **columns)
    ring_diagnoses()
    return True


def _may_shrink(job: Job, attempt: Attempt, failure: Mapping[str, Any]) -> bool:
    """Whether it goes on with as many replicas as are left: it may have several sizes, a rank was
    lost, and it has saved since the last such end. So no circle of lost nodes is without work."""
    is_lost = job.stop_reason in (StopReason.LOST, StopReason.FAILED) and is_lost_rank(failure)
    return is_lost and attempt.saved_at is not None and has_several_sizes(job)


def _requeue_preempted(job: Job, attempt: Attempt, transitions: Transitions) -> bool:
    """This spends no retry."""
    has_saved = attempt.saved_at is not None or job.attained_seconds > 0
    message = FROM_CHECKPOINT if has_saved else FROM_THE_START
    attained = _attained_seconds(job, attempt)
    columns = {"preempted": job.preempted + 1, "attained_seconds": attained}
    _queue_again(job, transitions, StopReason.PREEMPTED, message, **columns)
    return True


def _queue_again(
    job: Job, transitions: Transitions, code: StrEnum, message: Message, **columns: Any
) -> None:
    columns_of_start: dict[str, Any] = {"started_at": None, "deadline_at": None, "stop_reason": ""}
    transitions.advance(
        job, JobStatus.QUEUED, code=code, message=message, **columns_of_start, **columns
    )


def _attained_seconds(job: Job, attempt: Attempt) -> int:
    """Of its limit, what is spent after this attempt."""
    before = job.attained_seconds
    if job.started_at is None or attempt.saved_at is None:
        return before
    kept = max(0, (attempt.saved_at - job.started_at) // SECOND)
    return min(before + kept, max(job.time_limit_seconds - MIN_SECONDS_LEFT, before))
