"""A waiting job becomes another one in one step: the same request with some of its fields changed.

A request never changes once it is submitted, so there is a new job; it stands where the old one
stood. To undo it, cancel the new one.
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.contract.phrase import Phrase
from portal.accounts.models import User
from portal.audit.transitions import event_record
from portal.database.locks import lock_rows
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import job_not_waiting
from portal.jobs.services import job_cancel
from portal.live.bell import ring
from portal.submission.services import job_submit
from scheduler.core.model.states import JOB_WAITING, JobStatus
from scheduler.core.request import RequestLimits, parse_request

# What an alternative may change of a request.
CHANGEABLE = frozenset({"device", "replicas", "time_limit", "topology", "needs"})


def may_replace(user: User, job: Job) -> bool:
    """Its owner may, while it waits and has never started: nothing of its work is lost."""
    is_waiting = JobStatus(job.status) in JOB_WAITING
    return is_waiting and job.owner_id == user.pk and not job.attempts.exists()


def job_replace(*, job: Job, actor: User, changes: Mapping[str, Any], limits: RequestLimits) -> Job:
    """Cancel this job and queue its request with `changes`: both, or neither. The new one keeps its
    time in the queue, and whoever waited for the old one waits for the new one.

    Raises Refused(forbidden, not_waiting, has_run, changes_unknown) and RequestRefused, and what
    `job_submit` raises.
    """
    if job.owner_id != actor.pk:
        raise Refused("forbidden", "Only its owner may make another job of it", "", 403)
    if not changes or not changes.keys() <= CHANGEABLE:
        told = ", ".join(sorted(CHANGEABLE))
        sentence = Phrase("Change one or more of %(names)s", names=told)
        raise Refused("changes_unknown", sentence, "changes")
    with transaction.atomic():
        (old,) = lock_rows(Job.objects.filter(pk=job.pk))
        if JobStatus(old.status) not in JOB_WAITING:
            raise job_not_waiting(old)
        if old.attempts.exists():
            sentence = Phrase("%(job)s has run already: cancel it and ask again", job=old.label)
            raise Refused("has_run", sentence, "", 409)
        request = parse_request(_asked(old, changes), limits)
        job_cancel(job=old, actor=actor.username)
        new = job_submit(user=actor, request=request)
        _take_over(old, new, actor)
    ring(f"job:{old.pk}")
    return new


def _asked(job: Job, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Its request with the changes. A time to begin stays that time, and is left out when it is
    over; how many processes there are follows the device."""
    left_out = {"begin_at"} | ({"processes"} if "device" in changes else set())
    asked = {name: value for name, value in job.request.items() if name not in left_out}
    if job.begin_at and job.begin_at > timezone.now():
        asked["begin_at"] = job.begin_at.isoformat(timespec="seconds")
    return asked | dict(changes)


def _take_over(old: Job, new: Job, by: User) -> None:
    """Its time in the queue, its hold, and those who wait for it."""
    new.bypassed, new.hold_owner, new.hold_reason = old.bypassed, old.hold_owner, old.hold_reason
    if old.queued_at and new.queued_at:
        new.queued_at = old.queued_at
    new.save(update_fields=["bypassed", "hold_owner", "hold_reason", "queued_at"])
    Job.after.through.objects.filter(to_job=old).update(to_job=new)
    event_record(
        old, "replaced", Phrase("%(job)s takes its place", job=new.label), actor=by.username
    )
    event_record(
        new, "replaces", Phrase("it takes the place of %(job)s", job=old.label), actor=by.username
    )
