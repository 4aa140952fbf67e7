"""Tokens with which programs call apps: for one app, or for the apps of a project."""

import secrets
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.accounts.selectors import projects_to_work_in
from portal.accounts.services import MAX_TOKEN_TTL, MAX_TOKENS
from portal.apps.access import AppAccess, Caller, job_apps, live_access, may_visit
from portal.apps.headers import APP_TOKEN_PREFIX
from portal.apps.hosts import AppName
from portal.apps.models import AppToken
from portal.apps.visits import digest
from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.token_buckets import BucketRate

# As long as the column.
KEY_LENGTH = 16


def app_token_create(
    *, user: User, name: str, project: Project, job: Job | None, app: str, ttl: timedelta
) -> tuple[AppToken, str]:
    """Create a token; returns its row and its text, which is shown once and not stored. With a job,
    for this app of it; without, for all apps of the project that the user may open.

    Raises Refused(name_invalid, ttl_invalid, not_found, forbidden, too_many_tokens).
    """
    if not name.strip() or len(name) > 64 or not name.isprintable():
        raise Refused(ErrorCode.NAME_INVALID, "A name has 1 to 64 characters", "name")
    if not timedelta(0) < ttl <= MAX_TOKEN_TTL:
        sentence = Message(
            "A token is valid for at least a second and at most %(days)s days",
            days=MAX_TOKEN_TTL.days,
        )
        raise Refused(ErrorCode.TTL_INVALID, sentence, "days")
    _require_right(user, project, job, app)
    text = APP_TOKEN_PREFIX.decode() + secrets.token_hex(32)
    with transaction.atomic():
        # Two at once do not pass the limit together.
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if app_tokens_of(user).filter(expires_at__gt=timezone.now()).count() >= MAX_TOKENS:
            sentence = Message(
                "You have %(n)s tokens. Delete one that you no longer use", n=MAX_TOKENS
            )
            raise Refused(ErrorCode.TOO_MANY_TOKENS, sentence)
        token = AppToken.objects.create(
            user=user,
            name=name,
            key=text[:KEY_LENGTH],
            digest=digest(text),
            project=project,
            job=job,
            app=app if job else "",
            expires_at=timezone.now() + ttl,
        )
        _audit(AuditAction.APP_TOKEN_CREATE, token, user, {"days": ttl.days})
    return token, text


def app_token_revoke(*, token: AppToken, actor: User) -> None:
    """Delete it: what is open with it ends within 5 seconds."""
    with transaction.atomic():
        _audit(AuditAction.APP_TOKEN_REVOKE, token, actor, {"requests": token.requests})
        token.delete()


def app_tokens_of(user: User) -> QuerySet[AppToken]:
    """The user's tokens for apps, the newest first, with expired ones."""
    rows = AppToken.objects.filter(user=user).select_related("project", "job")
    return rows.order_by("-id")


def app_token_of(user: User, key: str) -> AppToken | None:
    """The user's token with these first characters."""
    return next((token for token in app_tokens_of(user) if token.key == key), None)


def token_access(text: str, name: AppName) -> AppAccess:
    """What a program with this token reaches of the app. Raises Refused(authentication_failed,
    not_found)."""
    rows = AppToken.objects.filter(digest=digest(text), user__is_active=True)
    pk = rows.filter(expires_at__gt=timezone.now()).values_list("pk", flat=True).first()
    if pk is None:
        security_event_record(AuditAction.TOKEN_REFUSED, noun="app_token")
        raise Refused(ErrorCode.AUTHENTICATION_FAILED, "This token is unknown, or it has expired")
    caller = Caller(name, token_pk=pk)
    access = live_access([caller]).get(caller)
    if access is None:
        sentence = (
            "No service has this address for your token"
            if name.service_pk
            else "No running job has this app for your token"
        )
        raise Refused(ErrorCode.NOT_FOUND, sentence)
    return access


def wrong_token_rate() -> BucketRate:
    """Of one address at one web process: as many as wrong passwords."""
    each_minute = settings.WRONG_SECRETS_A_MINUTE
    return BucketRate(burst=each_minute, per_second=each_minute / 60)


def _require_right(user: User, project: Project, job: Job | None, app: str) -> None:
    """A token that could open nothing is a mistake. Raises Refused."""
    if job is None:
        if not projects_to_work_in(user).filter(pk=project.pk).exists():
            sentence = "A token for the apps of a project is for those who may run jobs in it"
            raise Refused(ErrorCode.FORBIDDEN, sentence, "project")
        return
    if app not in job_apps(job):
        raise Refused(ErrorCode.NOT_FOUND, "The job has no app of this name", "app")
    if not may_visit(user, job, app):
        raise Refused(ErrorCode.FORBIDDEN, "You may not open this app", "app")


def _audit(action: AuditAction, token: AppToken, actor: User, facts: dict[str, object]) -> None:
    values = {"user": token.user.username, "name": token.name, "opens": app_token_scope(token)}
    is_new = action is AuditAction.APP_TOKEN_CREATE
    audit_record(
        actor=actor.username,
        action=action,
        noun="app_token",
        noun_id=token.key,
        project=token.project,
        before={} if is_new else values | facts,
        after=values | facts if is_new else {},
    )


def app_token_scope(token: AppToken) -> str:
    """What it opens, as a word: "web of J-12", or the project's slug."""
    return f"{token.app} of J-{token.job_id}" if token.job_id else token.project.slug
