"""Drain a node: cordon it, list the jobs on it, and stop those that an admin names.

A drained node is a cordoned node without work. A stopped job has its grace period; it is queued
again if it is preemptible or has an infrastructure retry left, and ends otherwise.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from agents.contract.message import Message
from portal.accounts.models import User
from portal.accounts.rights import require_platform_admin
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Node
from portal.inventory.services import node_cordon
from portal.jobs.first_failures import imposed_failure
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Job, Replica, StopReason
from portal.live.bell import ring
from portal.text import single_line
from scheduler.core.model.states import JOB_ALLOCATED, JobStatus, ReplicaStatus


@dataclass(frozen=True, slots=True)
class JobOnNode:
    """A job with replicas on a node."""

    job: Job
    replicas: int
    other_nodes: tuple[str, ...]
    """Names of other nodes that it also runs on."""
    deadline_at: datetime | None
    """None until it has started."""
    is_requeued: bool
    """If it is stopped, it is queued again."""


def jobs_on_node(node: Node) -> list[JobOnNode]:
    """The jobs that run, or prepare, on the node; the last to end comes last. Two queries."""
    live = Replica.objects.live()
    jobs = {
        job.pk: job
        for job in Job.objects.allocated()
        .filter(pk__in=live.filter(node=node).values("attempt__job_id"))
        .select_related("project", "owner")
    }
    counts = dict.fromkeys(jobs, 0)
    others: dict[int, set[str]] = {pk: set() for pk in jobs}
    rows = live.filter(attempt__job_id__in=jobs).select_related("node", "attempt")
    for row in rows.defer("node__desired", "node__topology", "node__facts"):
        if row.node_id == node.pk:
            counts[row.attempt.job_id] += 1
        else:
            others[row.attempt.job_id].add(row.location)
    on_node = [
        JobOnNode(job, counts[pk], tuple(sorted(others[pk])), job.deadline_at, _comes_back(job))
        for pk, job in jobs.items()
    ]
    return sorted(on_node, key=lambda o: (o.deadline_at is None, o.deadline_at or 0, o.job.pk))


def node_drain(*, node: Node, actor: User, reason: str, stop: Collection[str] = ()) -> list[str]:
    """Cordon the node and stop the named jobs, such as "J-12". The labels of the stopped jobs.

    Raises Refused(forbidden, reason_missing, node_retired, drain_stale): the last if the named jobs
    are not exactly those on the node, so that no admin stops a job that they have not seen.
    """
    require_platform_admin(actor)
    reason = single_line(reason)
    if node.schedulable or node.cordon_reason != reason:
        node = node_cordon(node=node, reason=reason, actor=actor.username)
    if not stop:
        return []
    running = {o.job.label: o.job for o in jobs_on_node(node) if not _is_stopping(o.job)}
    if set(stop) != set(running):
        sentence = Message(
            "The jobs on %(node)s have changed since you loaded them. Load them again",
            node=node.name,
        )
        raise Refused(ErrorCode.DRAIN_STALE, sentence, "stop")
    stopped = [label for label, job in running.items() if _stop(job, node, actor)]
    audit_record(
        actor=actor.username,
        action=AuditAction.NODE_DRAIN,
        noun="node",
        noun_id=node.name,
        after={"reason": reason, "stopped": stopped},
    )
    return stopped


def _comes_back(job: Job) -> bool:
    return job.preemptible or job.infrastructure_retries_left > 0


def _is_stopping(job: Job) -> bool:
    return JobStatus(job.status) is JobStatus.STOPPING


def _stop(job: Job, node: Node, by: User) -> bool:
    """False if it has ended meanwhile."""
    message = Message(
        "%(user)s drains %(node)s: %(because)s",
        user=by.username,
        node=node.name,
        because=node.cordon_reason,
    )
    with transaction.atomic():
        (row,) = Job.objects.filter(pk=job.pk).lock_rows()
        if JobStatus(row.status) not in JOB_ALLOCATED or _is_stopping(row):
            return False
        if not row.preemptible:
            attempt = row.attempts.latest("number")
            attempt.first_failure = imposed_failure(
                rank=0, status=ReplicaStatus.LOST, code=StopReason.DRAINED, message=message
            )
            attempt.save(update_fields=["first_failure"])
        stop_reason = StopReason.PREEMPTED if row.preemptible else StopReason.DRAINED
        job_stop(job=row, stop_reason=stop_reason, message=message, actor=by.username)
        ring(f"job:{row.pk}")
    return True
