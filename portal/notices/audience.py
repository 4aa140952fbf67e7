"""Who is told about a job, a budget or a node: people by their settings, and chats of projects.

The questions are asked once for a batch of events, so their number does not grow with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from portal.accounts.models import Membership, Role, User
from portal.jobs.models import Job
from portal.notices.kinds import KINDS_OF_JOBS, NoticeKind
from portal.notices.models import Notice, NoticeSettings, default_settings
from portal.webhooks.chat import ChatFormat
from portal.webhooks.models import Endpoint
from scheduler.core.model.states import JobStatus

MAIL = "email"
WEBHOOK_PREFIX = "webhook:"
# A chat without a choice of statuses is told of these.
CHAT_DEFAULT = frozenset({JobStatus.FAILED, JobStatus.TIMED_OUT})


@dataclass(slots=True)
class Audience:
    """Those who may be told, read once."""

    settings: dict[int, NoticeSettings] = field(default_factory=dict)
    chats: list[Endpoint] = field(default_factory=list)
    # Users and the projects that they are in.
    memberships: set[tuple[int, int]] = field(default_factory=set)

    def settings_of(self, user: User) -> NoticeSettings:
        return self.settings.get(user.pk) or default_settings(user)

    def wants_mail(self, user: User, kind: NoticeKind, job: Job | None = None) -> bool:
        """Whether the user has an address and wants this kind, in general or for this job. A user
        who left the project of the job is told no more."""
        if not user.email or not user.is_active:
            return False
        if job is not None and (user.pk, job.project_id) not in self.memberships:
            return False
        if job is not None and kind in KINDS_OF_JOBS and MAIL in notify_of(job):
            return True
        return kind in self.settings_of(user).kinds

    def chats_for(self, job: Job) -> Iterable[Endpoint]:
        """Chats of its project or of its owner, with those that the job names first."""
        for chat in self.chats:
            of_project = chat.project_id == job.project_id
            of_owner = chat.project_id is None and chat.owner_id == job.owner_id
            if of_project or of_owner:
                yield chat


def audience_of_jobs(jobs: Collection[Job]) -> Audience:
    """Three queries."""
    owners = {job.owner_id for job in jobs}
    projects = {job.project_id for job in jobs}
    return Audience(
        settings=_settings(owners),
        chats=[
            chat
            for chat in chats_on()
            if chat.project_id in projects or (chat.project_id is None and chat.owner_id in owners)
        ],
        memberships=set(
            Membership.objects.filter(user_id__in=owners, project_id__in=projects).values_list(
                "user_id", "project_id"
            )
        ),
    )


def audience_of_people(users: Iterable[User]) -> Audience:
    """One query."""
    return Audience(settings=_settings({user.pk for user in users}))


def chats_on() -> list[Endpoint]:
    """The endpoints of chat systems that are not switched off."""
    rows = Endpoint.objects.filter(off_reason="").exclude(format=ChatFormat.SIGNED)
    return list(rows.select_related("owner", "project"))


def project_admins(project_id: int) -> list[User]:
    rows = Membership.objects.filter(project_id=project_id, role=Role.ADMIN)
    return [row.user for row in rows.select_related("user")]


def platform_admins() -> list[User]:
    return list(User.objects.filter(is_superuser=True, is_active=True).exclude(email=""))


def notify_of(job: Job) -> list[str]:
    """The `notify` of its request: `email`, `webhook:NAME`."""
    return [str(word) for word in (job.request or {}).get("notify") or ()]


def is_named(chat: Endpoint, job: Job) -> bool:
    return f"{WEBHOOK_PREFIX}{chat.name}" in notify_of(job)


def chat_wants(chat: Endpoint, kind: NoticeKind, job: Job, status: str) -> bool:
    """Whether a chat is told of a job. `kinds` of an endpoint are statuses; without any, failures
    and time limits."""
    if is_named(chat, job) or kind is NoticeKind.ENDING:
        return True
    return status in (chat.kinds or CHAT_DEFAULT)


def a_notice(
    kind: NoticeKind,
    key: str,
    *,
    now: datetime,
    recipient: User | None = None,
    endpoint: Endpoint | None = None,
    job: Job | None = None,
    data: dict[str, Any] | None = None,
) -> Notice:
    return Notice(
        recipient=recipient,
        endpoint=endpoint,
        kind=kind,
        key=key,
        job=job,
        data=data or {},
        created_at=now,
    )


def _settings(users: Collection[int]) -> dict[int, NoticeSettings]:
    return {row.user_id: row for row in NoticeSettings.objects.filter(user_id__in=users)}
