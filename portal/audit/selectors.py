"""Read the history of a job, and the audit trail."""

from django.db.models import Max, Model, QuerySet

from portal.audit.models import AuditEntry, Event


def job_events(job: Model, *, since: int = 0) -> QuerySet[Event]:
    """The events of a job, its replicas and its allocations after event `since`, oldest first."""
    return Event.objects.filter(job_id=job.pk, id__gt=since).order_by("id")


def newest_event_id(job: Model) -> int:
    """The id of the job's last event, or 0."""
    return int(Event.objects.filter(job_id=job.pk).aggregate(last=Max("id"))["last"] or 0)


def audit_trail() -> QuerySet[AuditEntry]:
    """Every privileged change, newest first."""
    return AuditEntry.objects.select_related("project").order_by("-id")
