"""Visits of apps: begun on the portal with a ticket, entered at the app's host, with a cookie."""

import hashlib
import secrets
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from portal.accounts.models import TokenScope, User
from portal.accounts.tokens import is_expired, token_mark_used, token_with_text
from portal.apps.access import AppAccess, Caller, job_apps, live_access, may_visit
from portal.apps.hosts import AppName
from portal.apps.models import AppVisit
from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.querysets import values_of
from scheduler.core.model.states import JOB_FINAL, JobStatus

TICKET_SECONDS = 30


def visit_begin(*, job: Job, app: str, user: User, session_key: str) -> str:
    """A ticket for the app, which works once within 30 seconds; it is not stored. `session_key`: of
    the caller's browser.

    Raises Refused(not_found, not_running, forbidden).
    """
    if app not in job_apps(job):
        raise Refused(ErrorCode.NOT_FOUND, "The job has no app of this name")
    if not may_visit(user, job):
        sentence = (
            "A notebook opens for its owner alone, any other app for those who may run jobs in its "
            "project"
        )
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    if job.status != JobStatus.RUNNING:
        raise Refused(ErrorCode.NOT_RUNNING, "The job is not running, so its apps cannot be opened")
    ticket, now = secrets.token_urlsafe(32), timezone.now()
    with transaction.atomic():
        _visits_remove(user)
        AppVisit.objects.create(
            job=job,
            app=app,
            user=user,
            session_key=session_key,
            ticket_digest=digest(ticket),
            ticket_expires_at=now + timedelta(seconds=TICKET_SECONDS),
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


def visit_enter(ticket: str, name: AppName) -> str:
    """The cookie for a ticket of this app; empty if it is none, is late or was used."""
    cookie = secrets.token_urlsafe(32)
    with transaction.atomic():
        rows = AppVisit.objects.filter(job=name.job_pk, app=name.app, cookie_digest=None)
        rows = rows.filter(ticket_digest=digest(ticket), ticket_expires_at__gt=timezone.now())
        if not rows.update(cookie_digest=digest(cookie)):
            return ""
    return cookie if visitor_access(cookie, name) else ""


def visitor_access(cookie: str, name: AppName) -> AppAccess | None:
    """What the browser with this cookie reaches of the app."""
    rows = AppVisit.objects.filter(cookie_digest=digest(cookie), job=name.job_pk, app=name.app)
    pk = rows.values_list("pk", flat=True).first()
    return _access(Caller(name, visit_pk=pk)) if pk else None


def token_access(text: str, name: AppName) -> AppAccess:
    """What a program with this token reaches of the app. Raises Refused(authentication_failed,
    scope_missing, not_found)."""
    token = token_with_text(text)
    if token is None or is_expired(token) or not token.user.is_active:
        security_event_record(AuditAction.TOKEN_REFUSED, noun="token")
        raise Refused(ErrorCode.AUTHENTICATION_FAILED, "This token is unknown, or it has expired")
    if token.scope != TokenScope.APPS:
        sentence = "This token's scope does not allow this. Use a token for apps"
        raise Refused(ErrorCode.SCOPE_MISSING, sentence)
    token_mark_used(token)
    access = _access(Caller(name, token_digest=token.digest))
    if access is None:
        sentence = "No running job that you may use has this app"
        raise Refused(ErrorCode.NOT_FOUND, sentence)
    return access


def digest(secret: str) -> str:
    """As tickets and cookies are stored. They are long and random, so a fast digest is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _access(caller: Caller) -> AppAccess | None:
    return live_access([caller]).get(caller)


def _visits_remove(user: User) -> None:
    """Of the user's, those that nothing can come of any more."""
    ended = Q(job__status__in=values_of(JOB_FINAL))
    late = Q(cookie_digest=None, ticket_expires_at__lt=timezone.now())
    AppVisit.objects.filter(ended | late, user=user).delete()
