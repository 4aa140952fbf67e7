"""A running job gets more time: the same right as to cancel it, the same limits as a submit."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from agents.contract.units import as_gpus
from portal.accounts.models import User
from portal.accounts.selectors import is_project_admin
from portal.allocations.budgets import current_budgets
from portal.allocations.models import Allocation
from portal.audit.codes import AuditAction, EventCode
from portal.audit.services import audit_record
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Node
from portal.jobs.lifecycle import ring_replicas
from portal.jobs.models import Job, Replica
from portal.jobs.selectors import may_cancel
from portal.live.bell import ring, ring_plan
from portal.quotas.approvals import approval_needed
from scheduler.core.model.snapshot import Priority
from scheduler.core.model.states import JobStatus
from scheduler.core.request.quantities import write_seconds


def may_extend(user: User, job: Job) -> bool:
    """Whoever may cancel it, while it runs."""
    return JobStatus(job.status) is JobStatus.RUNNING and may_cancel(user, job)


def job_extend(*, job: Job, actor: User, seconds: int, max_seconds: int) -> Job:
    """Move its deadline by `seconds`, up to a time limit of `max_seconds`. It goes on as it is.

    Raises Refused(forbidden, not_running, over_time_limit, approval, budget): what a submit of the
    longer job would have to ask an admin for, its owner cannot take; a project's admin can.
    """
    if not may_cancel(actor, job):
        sentence = Message("Only its owner or a project admin may extend a job")
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    with transaction.atomic():
        # Before the job, in the order of locks. Its nodes, or none, if it starts anew meanwhile.
        carrying = Replica.objects.filter(attempt__job=job, attempt__ended_at=None)
        nodes = Node.objects.filter(pk__in=carrying.values("node_id")).lock_rows()
        (row,) = Job.objects.filter(pk=job.pk).select_related("project", "owner").lock_rows()
        if JobStatus(row.status) is not JobStatus.RUNNING or row.deadline_at is None:
            sentence = Message(
                "%(job)s is %(status)s: only a running job can be extended",
                job=row.label,
                status=Message(row.status),
            )
            raise Refused(ErrorCode.NOT_RUNNING, sentence)
        wanted = row.time_limit_seconds + seconds
        if wanted > max_seconds:
            left = write_seconds(max(0, max_seconds - row.time_limit_seconds)) or "0s"
            sentence = Message(
                "A job may run for at most %(most)s: at most %(left)s more",
                most=write_seconds(max_seconds),
                left=left,
            )
            raise Refused(ErrorCode.OVER_TIME_LIMIT, sentence, "by")
        units = _units(row)
        _require_approved(row, actor, units, wanted)
        _require_budget(row, units * seconds)
        _extend(row, actor, seconds)
        Node.objects.filter(pk__in=[node.pk for node in nodes]).update(drive_due=True)
        ring_replicas(row.attempts.latest("number").replicas.all())
    return row


def _units(job: Job) -> int:
    live = Allocation.objects.live().filter(replica__attempt__job=job)
    return sum(live.values_list("units", flat=True))


def _require_approved(job: Job, by: User, units: int, seconds: int) -> None:
    if is_project_admin(by, job.project_id):
        return
    needed = approval_needed(
        job.project, units=units, seconds=seconds, priority=Priority(job.priority)
    )
    # What a job of this priority needs at any length was given when it was admitted.
    if needed and set(needed.evidence) - {"priority", "needed_units", "approval_units"}:
        sentence = Message(
            "%(needed)s. Ask an admin of %(project)s to extend it",
            needed=needed.message,
            project=job.project.slug,
        )
        raise Refused(ErrorCode.APPROVAL, sentence, "by")


def _require_budget(job: Job, unit_seconds: int) -> None:
    """What is used, what running work may still use, and the extension, within every budget."""
    for budget in current_budgets(timezone.now()):
        if budget.project != job.project.slug or budget.user not in ("", job.owner.username):
            continue
        left = budget.limit_unit_seconds - budget.used_unit_seconds - budget.reserved_unit_seconds
        if unit_seconds > left:
            hours = as_gpus(max(0, left) // 3600)
            sentence = Message(
                "The budget has %(hours)s GPU-hours left. Extend it by less, or ask an admin",
                hours=hours,
            )
            raise Refused(ErrorCode.BUDGET, sentence, "by")


def _extend(job: Job, by: User, seconds: int) -> None:
    before = {"time_limit_seconds": job.time_limit_seconds}
    job.time_limit_seconds += seconds
    job.deadline_at = (job.deadline_at or timezone.now()) + timedelta(seconds=seconds)
    job.save(update_fields=["time_limit_seconds", "deadline_at"])
    more = write_seconds(seconds)
    message = Message("extended by %(user)s by %(more)s", user=by.username, more=more)
    event_record(job, EventCode.EXTENDED, message, actor=by.username)
    audit_record(
        actor=by.username,
        action=AuditAction.JOB_EXTEND,
        noun="job",
        noun_id=job.label,
        project=job.project,
        before=before,
        after={"time_limit_seconds": job.time_limit_seconds},
    )
    ring(f"job:{job.pk}")
    ring_plan()
