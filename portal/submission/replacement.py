"""Replace a waiting job by a new one with some fields of its request changed, in one transaction.

A submitted request never changes, so there is a new job; it takes the old one's place in the queue.
To undo it, cancel the new job.
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import User
from portal.audit.codes import EventCode
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Dependency, Job
from portal.jobs.selectors import job_not_waiting
from portal.jobs.services import job_cancel
from portal.live.bell import ring
from portal.submission.arrays import member_replace
from portal.submission.limits import chosen_fields
from portal.submission.services import job_submit
from scheduler.core.model.states import JOB_WAITING, JobStatus
from scheduler.core.request import RequestLimits, parse_request

# The fields of a request that an alternative may change.
CHANGEABLE = frozenset({"device", "replicas", "time_limit", "topology", "needs"})


def may_replace(user: User, job: Job) -> bool:
    """Its owner may, while it waits and has never started: no work is lost."""
    is_waiting = JobStatus(job.status) in JOB_WAITING
    return is_waiting and job.owner_id == user.pk and not job.attempts.exists()


def job_replace(*, job: Job, actor: User, changes: Mapping[str, Any], limits: RequestLimits) -> Job:
    """Cancel this job and submit its request with `changes`: both, or neither. The new job keeps
    queue time and hold; jobs that depend on the old one depend on the new one.

    Raises Refused(forbidden, not_waiting, has_run, changes_unknown) and RequestRefused, and what
    `job_submit` raises.
    """
    if job.owner_id != actor.pk:
        raise Refused(ErrorCode.FORBIDDEN, "Only its owner may replace a job")
    if not changes or not changes.keys() <= CHANGEABLE:
        names = ", ".join(sorted(CHANGEABLE))
        sentence = Message("Change one or more of %(names)s", names=names)
        raise Refused(ErrorCode.CHANGES_UNKNOWN, sentence, "changes")
    with transaction.atomic():
        (old,) = Job.objects.filter(pk=job.pk).lock_rows()
        if JobStatus(old.status) not in JOB_WAITING:
            raise job_not_waiting(old)
        if old.attempts.exists():
            sentence = Message(
                "%(job)s has run already: cancel it and submit a new job", job=old.label
            )
            raise Refused(ErrorCode.HAS_RUN, sentence)
        request = parse_request(_changed_request(old, changes, limits), limits)
        job_cancel(job=old, actor=actor.username)
        new = job_submit(user=actor, request=request)
        _take_over(old, new, actor)
        member_replace(old=old, new=new)
    ring(f"job:{old.pk}")
    return new


def _changed_request(job: Job, changes: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """The stored request with the changes. A begin time stays only while it lies ahead; processes
    and amounts that nobody chose follow a changed device."""
    stored = dict(job.request)
    if "device" in changes:
        stored = chosen_fields(stored, limits)
        stored.pop("processes", None)
    stored.pop("begin_at", None)
    if job.begin_at and job.begin_at > timezone.now():
        stored["begin_at"] = job.begin_at.isoformat(timespec="seconds")
    return stored | dict(changes)


def _take_over(old: Job, new: Job, actor: User) -> None:
    """The new job takes the old one's queue time, bypasses, hold and dependants."""
    new.bypassed, new.hold_owner, new.hold_reason = old.bypassed, old.hold_owner, old.hold_reason
    if old.queued_at and new.queued_at:
        new.queued_at = old.queued_at
    new.save(update_fields=["bypassed", "hold_owner", "hold_reason", "queued_at"])
    Dependency.objects.filter(to_job=old).update(to_job=new)
    by = actor.username
    event_record(old, EventCode.REPLACED, Message("replaced by %(job)s", job=new.label), actor=by)
    event_record(new, EventCode.REPLACES, Message("replaces %(job)s", job=old.label), actor=by)
