"""Read jobs: those that a user may see, and one replica of a job."""

import re
from dataclasses import dataclass
from typing import Any

from agents.contract.message import Message
from portal.accounts.models import User
from portal.accounts.selectors import WORKING_ROLES, is_project_admin, role_in
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job, Replica
from portal.jobs.querysets import JobQuerySet
from scheduler.core.request.program import HIDDEN_VALUE

# 18 digits fit every database's bigint.
LABEL = re.compile(r"(?:[Jj]-)?([0-9]{1,18})")
ARRAY_LABEL = re.compile(r"[Aa]-0*([1-9][0-9]{0,17})")


def jobs_visible_to(user: User) -> JobQuerySet[Job]:
    """The jobs of the user's projects, newest first; every job for a platform admin."""
    rows: JobQuerySet[Job] = Job.objects.visible_to(user)
    return rows.select_related("project", "owner").order_by("-id")


def job_visible(user: User, ref: str) -> Job:
    """One job by "J-12" or "12". Raises Refused(not_found); foreign and unknown read the same."""
    match = LABEL.fullmatch(ref)
    job = jobs_visible_to(user).filter(pk=int(match[1])).first() if match else None
    if job is None:
        raise job_unknown()
    return job


def job_unknown() -> Refused:
    return Refused(ErrorCode.NOT_FOUND, "This job does not exist, or you may not see it")


def job_not_waiting(job: Job, field: str = "") -> Refused:
    values = {"job": job.label, "status": Message(job.status)}
    return Refused(
        ErrorCode.NOT_WAITING, Message("%(job)s is %(status)s, not waiting", **values), field
    )


def is_working_owner(user: User, job: Job) -> bool:
    """Its owner, while they may run jobs in its project: a viewer only reads."""
    return job.owner_id == user.pk and role_in(user, job.project_id) in WORKING_ROLES


def may_cancel(user: User, job: Job) -> bool:
    """Its owner, and admins of its project or of the platform."""
    return may_cancel_work(user, owner=job.owner_id, project=job.project_id)


def may_cancel_work(user: User, *, owner: int, project: int) -> bool:
    """The same of an array. `owner`, `project`: their keys."""
    return owner == user.pk or is_project_admin(user, project)


def readable_request(user: User, job: Job) -> dict[str, Any]:
    """The job's request, as a user who sees the job may read it.

    The values of its environment are often tokens: its owner and admins read them, others the
    names.
    """
    return readable_fields(user, job.request, owner=job.owner_id, project=job.project_id)


def readable_fields(
    user: User, request: dict[str, Any], *, owner: int, project: int
) -> dict[str, Any]:
    """The same of a request of this owner in this project."""
    if not request.get("env") or _may_read_environment(user, owner, project):
        return request
    return request | {"env": dict.fromkeys(request["env"], HIDDEN_VALUE)}


def _may_read_environment(user: User, owner: int, project: int) -> bool:
    return owner == user.pk or is_project_admin(user, project)


def replica_of(job: Job, *, attempt: int | None = None, rank: int = 0) -> Replica:
    """A replica of one attempt, by default of the last. Raises Refused(not_found)."""
    rows = Replica.objects.filter(attempt__job=job, rank=rank).select_related("attempt__job")
    if attempt is not None:
        rows = rows.filter(attempt__number=attempt)
    row = rows.order_by("-attempt__number").first()
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "This replica does not exist yet", "rank")
    return row


def replicas_of(job: Job, *, attempt: int | None = None) -> list[Replica]:
    """All replicas of one attempt by rank, by default of the last; [] if there is none. Raises
    Refused(not_found) for an attempt that does not exist. Two queries."""
    attempts = job.attempts.order_by("-number")
    row = (attempts if attempt is None else attempts.filter(number=attempt)).first()
    if row is None:
        if attempt is None:
            return []
        raise Refused(ErrorCode.NOT_FOUND, "This attempt does not exist", "attempt")
    row.job = job
    rows = list(Replica.objects.filter(attempt=row).order_by("rank"))
    for replica in rows:
        replica.attempt = row
    return rows


@dataclass(frozen=True, slots=True)
class RecentJob:
    """A job of the user's, with what another request may have as well."""

    label: str
    name: str
    project_id: int
    image: str
    code: str
    """The tree of its code, or empty."""


def recent_jobs(user: User, limit: int = 50) -> list[RecentJob]:
    """The user's latest jobs, the latest first. One query."""
    columns = ("pk", "name", "project_id", "image", "request__code")
    rows = Job.objects.filter(owner=user).order_by("-pk").values_list(*columns)[:limit]
    return [
        RecentJob(f"J-{pk}", name, project, image, code or "")
        for pk, name, project, image, code in rows
    ]
