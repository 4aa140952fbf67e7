"""Visits of apps: begun on the portal with a ticket, entered at the app's host, with a cookie.

The page of the portal hands the ticket in by a form, whose `Origin` browsers write: a ticket that
another page plants in somebody's browser, to sign them in as its author, is refused.
"""

import hashlib
import secrets
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from portal.accounts.models import User
from portal.apps.access import AppAccess, Caller, job_apps, live_access, may_call, may_visit
from portal.apps.hosts import AppName
from portal.apps.models import AppVisit
from portal.apps.removal import over_visits
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.job_services.models import JobService
from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus

TICKET_SECONDS = 30


def visit_begin(*, job: Job, app: str, user: User, session_key: str, origin: str) -> str:
    """A ticket for the app, which works once within 30 seconds; it is not stored. `session_key`: of
    the caller's browser. `origin`: of the portal, as that browser calls it.

    Raises Refused(not_found, not_running, forbidden).
    """
    if app not in job_apps(job):
        raise Refused(ErrorCode.NOT_FOUND, "The job has no app of this name")
    if not may_visit(user, job, app):
        sentence = (
            "A notebook opens for its owner, any other app for those who may run jobs in its "
            "project, and both for people with whom the owner shares them"
        )
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    if job.status != JobStatus.RUNNING:
        raise Refused(ErrorCode.NOT_RUNNING, "The job is not running, so its apps cannot be opened")
    with transaction.atomic():
        ticket = _visit_create(
            AppVisit(job=job, app=app, user=user, session_key=session_key, origin=origin)
        )
        audit_record(
            actor=user.username,
            action=AuditAction.APP_OPEN,
            noun="job",
            noun_id=job,
            project=job.project,
            after={"app": app},
        )
    return ticket


def service_visit_begin(*, service: JobService, user: User, session_key: str, origin: str) -> str:
    """The same for a service, which may have no copies yet. Raises Refused(not_found,
    forbidden)."""
    if not may_call(user, service):
        sentence = "Those who may run jobs in the project of a service may open it"
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    if service.ended_at is not None:
        raise Refused(ErrorCode.NOT_FOUND, "This service has ended: create another one")
    with transaction.atomic():
        ticket = _visit_create(
            AppVisit(
                service=service,
                app=service.name,
                user=user,
                session_key=session_key,
                origin=origin,
            )
        )
        audit_record(
            actor=user.username,
            action=AuditAction.APP_OPEN,
            noun="service",
            noun_id=service.label,
            project=service.project,
        )
    return ticket


def _visit_create(visit: AppVisit) -> str:
    """Its ticket."""
    ticket, now = secrets.token_urlsafe(32), timezone.now()
    over_visits(now).filter(user=visit.user).delete()
    visit.ticket_digest = digest(ticket)
    visit.ticket_expires_at = now + timedelta(seconds=TICKET_SECONDS)
    visit.save(force_insert=True)
    return ticket


def visit_enter(ticket: str, name: AppName, origin: str) -> str:
    """The cookie for a ticket of this app; empty if it is none, is late or was used, or if a page
    of another origin than the portal's hands it in."""
    cookie = secrets.token_urlsafe(32)
    with transaction.atomic():
        rows = _visits_at(name).filter(cookie_digest=None)
        rows = rows.filter(ticket_digest=digest(ticket), ticket_expires_at__gt=timezone.now())
        rows = rows.filter(origin=origin).exclude(origin="")
        if not rows.update(cookie_digest=digest(cookie)):
            return ""
    return cookie if visitor_access(cookie, name) else ""


def visitor_access(cookie: str, name: AppName) -> AppAccess | None:
    """What the browser with this cookie reaches of the app."""
    rows = _visits_at(name).filter(cookie_digest=digest(cookie))
    pk = rows.values_list("pk", flat=True).first()
    return _access(Caller(name, visit_pk=pk)) if pk else None


def digest(secret: str) -> str:
    """As tickets and cookies are stored. They are long and random, so a fast digest is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _access(caller: Caller) -> AppAccess | None:
    return live_access([caller]).get(caller)


def _visits_at(name: AppName) -> QuerySet[AppVisit]:
    if name.service_pk:
        return AppVisit.objects.filter(service=name.service_pk, app=name.app)
    return AppVisit.objects.filter(job=name.job_pk, app=name.app)
