"""Guests: people to whom the owner of a job opens one of its apps."""

import re

from django.db import transaction
from django.db.models import QuerySet

from agents.contract.message import Message
from portal.accounts.models import User
from portal.accounts.selectors import active_user, is_project_admin
from portal.apps.access import app_rights, job_apps
from portal.apps.models import AppGuest
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.querysets import values_of
from portal.jobs.selectors import LABEL, is_working_owner, job_visible
from scheduler.core.model.states import JOB_FINAL
from scheduler.core.request.apps import APP_NAME

MAX_GUESTS = 100


def app_guest_add(*, job: Job, app: str, username: str, actor: User) -> AppGuest:
    """Let a person open an app of the caller's job, while it runs. Again changes nothing.

    Raises Refused(not_found, forbidden, invalid_field, too_many).
    """
    _require_app(job, app)
    if not is_working_owner(actor, job):
        sentence = "Only the owner of a job shares its apps, while they may run jobs in its project"
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    user = active_user(username)
    if user.pk == job.owner_id:
        raise Refused(ErrorCode.INVALID_FIELD, "This job is yours: its apps open for you", "user")
    with transaction.atomic():
        # Two at once do not pass the limit together.
        Job.objects.select_for_update(no_key=True).get(pk=job.pk)
        guests = app_guests(job, app)
        if guest := guests.filter(user=user).first():
            return guest
        if guests.count() >= MAX_GUESTS:
            limit = Message("An app is shared with at most %(n)s people", n=MAX_GUESTS)
            raise Refused(ErrorCode.TOO_MANY_ITEMS, limit, "user")
        guest = AppGuest.objects.create(job=job, app=app, user=user)
        _audit(AuditAction.APP_GUEST_ADD, guest, actor)
    return guest


def app_guest_remove(*, job: Job, app: str, username: str, actor: User) -> None:
    """Take it back: what the person has open of the app ends within 5 seconds. For the owner of the
    job, and for admins of its project. Raises Refused(not_found, forbidden)."""
    _require_app(job, app)
    if not may_remove_guests(actor, job):
        sentence = "Only the owner of a job and admins of its project take an app back from people"
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    with transaction.atomic():
        guests = app_guests(job, app)
        guest = next((each for each in guests if each.user.username == username), None)
        if guest is None:
            unknown = Message("The app is not shared with %(name)s", name=repr(username))
            raise Refused(ErrorCode.NOT_FOUND, unknown, "user")
        _audit(AuditAction.APP_GUEST_REMOVE, guest, actor)
        guest.delete()


def app_guests(job: Job, app: str) -> QuerySet[AppGuest]:
    """With their users, in the order in which they were added."""
    return AppGuest.objects.filter(job=job, app=app).select_related("user")


def guests_by_app(job: Job) -> dict[str, list[AppGuest]]:
    """The guests of all apps of a job."""
    guests: dict[str, list[AppGuest]] = {}
    for guest in AppGuest.objects.filter(job=job).select_related("user"):
        guests.setdefault(guest.app, []).append(guest)
    return guests


def guest_apps(user: User) -> list[AppGuest]:
    """The apps of waiting and running jobs that others share with the user now, the newest first.
    Three statements."""
    rows = AppGuest.objects.filter(user=user).exclude(job__status__in=values_of(JOB_FINAL))
    guests = list(rows.select_related("job__owner", "job__project").order_by("-id"))
    if not guests:
        return []
    rights = app_rights([user], [guest.job for guest in guests])
    return [guest for guest in guests if rights.may_visit(user, guest.job, guest.app)]


def job_with_app(user: User, ref: str, app: str) -> Job:
    """A job whose app the user may know of: one that they see, or of which they are a guest. Raises
    Refused(not_found)."""
    match = LABEL.fullmatch(ref)
    # Nothing else reaches the database: PostgreSQL takes no NUL in a text.
    if match and re.fullmatch(APP_NAME, app):
        guests = AppGuest.objects.filter(job=int(match[1]), app=app, user=user)
        if guest := guests.select_related("job__owner").first():
            return guest.job
    return job_visible(user, ref)


def may_remove_guests(user: User, job: Job) -> bool:
    return job.owner_id == user.pk or is_project_admin(user, job.project_id)


def _require_app(job: Job, app: str) -> None:
    if app not in job_apps(job):
        raise Refused(ErrorCode.NOT_FOUND, "The job has no app of this name")


def _audit(action: AuditAction, guest: AppGuest, actor: User) -> None:
    facts = {"app": guest.app, "user": guest.user.username}
    is_new = action is AuditAction.APP_GUEST_ADD
    audit_record(
        actor=actor.username,
        action=action,
        noun="job",
        noun_id=guest.job,
        project=guest.job.project,
        before={} if is_new else facts,
        after=facts if is_new else {},
    )
