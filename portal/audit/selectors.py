"""Reads history: the events of a job, of a node, and the audit trail."""

from django.db.models import Max, QuerySet

from portal.audit.models import AuditEntry, Event
from portal.inventory.models import Node
from portal.jobs.models import Job


def job_events(job: Job, *, since: int = 0) -> QuerySet[Event]:
    """The history of a job, its replicas and allocations, oldest first, after event `since`."""
    return Event.objects.filter(job=job, id__gt=since).order_by("id")


def newest_event_id(job: Job) -> int:
    """The id of the job's last event; 0 where it has none."""
    return int(Event.objects.filter(job=job).aggregate(last=Max("id"))["last"] or 0)


def events_of_node(node: Node, *, since: int = 0) -> QuerySet[Event]:
    """The history of a node and its devices, without that of the jobs that ran there."""
    return Event.objects.filter(node=node, job=None, id__gt=since).order_by("id")


def audit_trail() -> QuerySet[AuditEntry]:
    """Every privileged change, newest first."""
    return AuditEntry.objects.select_related("project").order_by("-id")
