"""Where a job's replicas are, and whether the job is there as well: the rule of every rollup."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from django.db.models import Exists, OuterRef, Q

from portal.jobs.images import with_other_image
from portal.jobs.models import Attempt, DesiredState, Job, Replica
from portal.jobs.querysets import values_of
from scheduler.core.model.states import (
    JOB_ALLOCATED,
    REPLICA_ENDED,
    AttemptState,
    JobStatus,
    ReplicaStatus,
    attempt_state,
)

# What `is_behind` reads.
COLUMNS = (
    *("attempt__job__status", "attempt__preflight", "rank", "status", "exit_code"),
    *("desired_state", "image_digest"),
)


# What a check of a network may come to, and its job goes on.
ENDS_NO_JOB = (AttemptState.RUNNING, AttemptState.SUCCEEDED, AttemptState.FAILED)


def may_go_on(replica: Replica) -> bool:
    """It has neither ended, nor was asked to."""
    has_ended = ReplicaStatus(replica.status) in REPLICA_ENDED
    return not has_ended and replica.desired_state in (DesiredState.PREPARE, DesiredState.RUN)


def outcome_of(replicas: Iterable[Replica]) -> AttemptState:
    return attempt_state([(ReplicaStatus(row.status), row.exit_code) for row in replicas])


def have_ended(replicas: Iterable[Replica]) -> bool:
    return all(ReplicaStatus(row.status) in REPLICA_ENDED for row in replicas)


def is_behind(job: Job, replicas: Sequence[Replica]) -> bool:
    """Whether a rollup has anything to do: the job is not where its replicas are, or their barrier
    is not released."""
    status = JobStatus(job.status)
    if status is JobStatus.STOPPING:
        return have_ended(replicas)
    match outcome_of(replicas):
        case AttemptState.WAITING:
            return False
        case AttemptState.PREPARING:
            return status is JobStatus.PLACED
        case AttemptState.READY:
            is_held = any(row.desired_state == DesiredState.PREPARE for row in replicas)
            return status is JobStatus.PLACED or is_held or bool(with_other_image(replicas))
        case outcome if outcome in ENDS_NO_JOB and replicas[0].attempt.is_preflight:
            # The job is being prepared until `portal/preflights/` has read what was measured.
            return status is JobStatus.PLACED or (
                outcome is AttemptState.FAILED and any(map(may_go_on, replicas))
            )
        case AttemptState.RUNNING:
            return status is not JobStatus.RUNNING
        case _:
            return True


def jobs_behind_replicas() -> list[int]:
    """Primary keys of the jobs that `job_rollup` would move. Three queries, which lock nothing: one
    that another transaction moves meanwhile is named for nothing, or by the next call."""
    ended = Replica.objects.filter(attempt__job=OuterRef("pk"), status__in=values_of(REPLICA_ENDED))
    # Most jobs: nothing moves one that runs before a replica of it has ended.
    moves = ~Q(status=JobStatus.RUNNING) | Q(Exists(ended))
    attempts = latest_attempts(Job.objects.allocated().filter(moves).only("pk", "status"))
    replicas = Replica.objects.filter(attempt__in=attempts).select_related("attempt__job")
    gangs: dict[int, list[Replica]] = defaultdict(list)
    for replica in replicas.only(*COLUMNS):
        gangs[replica.attempt.job_id].append(replica)
    return sorted(pk for pk, gang in gangs.items() if is_behind(gang[0].attempt.job, gang))


def latest_attempts(jobs: Iterable[Job]) -> list[int]:
    """The primary key of the latest attempt of each job that has devices."""
    ids = [job.pk for job in jobs if JobStatus(job.status) in JOB_ALLOCATED]
    attempts = Attempt.objects.filter(job__in=ids).order_by("number")
    # The last one of each job is what stays.
    return list(dict(attempts.values_list("job_id", "pk")).values())
