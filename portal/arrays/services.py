"""What people do with an array as a whole."""

from django.db import transaction

from portal.accounts.models import User
from portal.arrays.models import JobArray
from portal.arrays.selectors import members_of
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.jobs.holds import approval_reason, jobs_approve, jobs_refuse, require_approver
from portal.jobs.models import Job
from portal.jobs.services import job_cancel, jobs_cancel_waiting
from portal.text import single_line


def array_cancel(*, array: JobArray, actor: str) -> int:
    """Cancel all members: those that wait in one transaction, each of the others through stopping.
    Repeats are harmless, also at the same time. How many there were."""
    members = members_of(array)
    count = jobs_cancel_waiting(jobs=members, actor=actor)
    for job in list(members.allocated()):
        job_cancel(job=job, actor=actor)
        count += 1
    return count


def array_approve(*, array: JobArray, actor: User, comment: str = "") -> int:
    """Queue all members that await approval, with one audit line. How many there were.

    Raises what `jobs_approve` raises.
    """
    require_approver(actor, array.project_id)
    with transaction.atomic():
        jobs = jobs_approve(jobs=members_of(array), actor=actor, comment=comment)
        _record(array, jobs, AuditAction.JOB_APPROVE, actor, comment)
    return len(jobs)


def array_refuse(*, array: JobArray, actor: User, reason: str) -> int:
    """End all members that await approval, with one audit line. How many there were.

    Raises what `jobs_refuse` raises.
    """
    require_approver(actor, array.project_id)
    with transaction.atomic():
        jobs = jobs_refuse(jobs=members_of(array), actor=actor, reason=reason)
        _record(array, jobs, AuditAction.JOB_REFUSE, actor, reason)
    return len(jobs)


def _record(
    array: JobArray, jobs: list[Job], action: AuditAction, actor: User, because: str
) -> None:
    after = {"status": jobs[0].status, "members": len(jobs), **approval_reason(jobs[0])}
    because = single_line(because)
    audit_record(
        actor=actor.username,
        action=action,
        noun="array",
        noun_id=array.label,
        project=array.project,
        after=after | ({"because": because} if because else {}),
    )
