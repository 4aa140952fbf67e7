"""Who is told about a job, a budget or a node: people by their settings, and chats of projects.

The questions are asked once for a batch of events, so their number does not grow with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from portal.accounts.models import Membership, Role, User
from portal.accounts.selectors import platform_admins
from portal.jobs.models import Job
from portal.notices.kinds import KINDS_OF_JOBS, NoticeKind
from portal.notices.models import Notice, NoticeSettings, default_settings
from portal.quotas.models import Budget
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
    # Admins of projects, for what concerns a whole project.
    admins: dict[int, list[User]] = field(default_factory=dict)

    def settings_of(self, user: User) -> NoticeSettings:
        return self.settings.get(user.pk) or default_settings(user)

    def wants_mail(self, user: User, kind: NoticeKind, job: Job | None = None) -> bool:
        """Whether the user has an address and wants this kind, in general or for this job. A user
        who left the project of the job is told no more."""
        if not user.email or not user.is_active:
            return False
        if job is not None and not self.is_member(user.pk, job.project_id):
            return False
        if job is not None and kind in KINDS_OF_JOBS and MAIL in notify_of(job):
            return True
        return kind in self.settings_of(user).kinds

    def is_member(self, user: int, project: int) -> bool:
        return (user, project) in self.memberships

    def chats_for(self, job: Job) -> Iterable[Endpoint]:
        """Chats of its project, and its owner's own as long as the owner is in the project."""
        is_theirs = self.is_member(job.owner_id, job.project_id)
        for chat in self.chats:
            of_owner = chat.project_id is None and chat.owner_id == job.owner_id
            if chat.project_id == job.project_id or (of_owner and is_theirs):
                yield chat

    def people_of(self, budget: Budget) -> list[User]:
        """Whom a budget concerns: its user, or the admins of its project."""
        if budget.user is None:
            return self.admins.get(budget.project_id, [])
        return [budget.user] if self.is_member(budget.user.pk, budget.project_id) else []


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


def audience_of_budgets(budgets: Collection[Budget]) -> Audience:
    """Three queries, or none without budgets."""
    if not budgets:
        return Audience()
    found = Audience(admins=defaultdict(list), chats=chats_on())
    members = Membership.objects.filter(project_id__in={budget.project_id for budget in budgets})
    for row in members.select_related("user"):
        found.memberships.add((row.user_id, row.project_id))
        if row.role == Role.ADMIN:
            found.admins[row.project_id].append(row.user)
    users = {budget.user_id for budget in budgets if budget.user_id is not None}
    admins = {user.pk for each in found.admins.values() for user in each}
    found.settings = _settings(users | admins)
    return found


def audience_of_nodes() -> tuple[Audience, list[User]]:
    """The platform admins. Two queries."""
    admins = list(platform_admins())
    return Audience(settings=_settings({admin.pk for admin in admins})), admins


def chats_on() -> list[Endpoint]:
    """The endpoints of chat systems that are not switched off."""
    rows = Endpoint.objects.filter(off_reason="").exclude(format=ChatFormat.SIGNED)
    return list(rows.select_related("owner", "project"))


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
