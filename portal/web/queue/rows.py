"""A line of the queue as one person may read it: of other projects, what is asked and why it waits,
but not whose it is."""

from collections.abc import Callable
from dataclasses import dataclass, field

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import Membership, Role, User
from portal.jobs.bulk_cancel import cancel_permission
from portal.jobs.models import Job
from portal.planning.estimates import no_estimate_for_job
from portal.planning.queue_selectors import EndingJob
from portal.web.wording.labels import Badge, duration, elapsed
from portal.web.wording.messages import message_text, stored_text
from portal.web.wording.reason_badges import reason_badge
from portal.web.wording.start_estimates import ExpectedStart, expected_start
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class QueueViewer:
    """Who reads: the projects whose names they know (None: all), the ones whose approvals they
    decide, and what they may end or hold. `sees_names`: names of everybody, by the platform's
    setting."""

    user: User
    member_of: frozenset[int] | None
    administers: frozenset[int]
    may_cancel: Callable[[Job], bool]
    sees_names: bool

    def may_open(self, job: Job) -> bool:
        return self.member_of is None or job.project_id in self.member_of

    def decides(self, job: Job) -> bool:
        return self.user.is_platform_admin or job.project_id in self.administers


@dataclass(frozen=True, slots=True)
class QueueRow:
    """`is_known`: its names may be read; `is_open`: its page as well. `factors`: what its place
    rests on, beside its band."""

    job: Job
    is_mine: bool
    shows_names: bool
    may_open: bool
    badge: Badge
    sentence: str = ""
    unblocks: str = ""
    expected: ExpectedStart | None = None
    no_estimate: str = ""
    waited: str = ""
    time_left_limit: str = ""
    factors: list[str] = field(default_factory=list)
    may_hold: bool = False
    may_release: bool = False
    may_decide: bool = False


def queue_viewer(user: User, *, names: str) -> QueueViewer:
    """`names`: the platform's setting, "all" or "own". One or two queries."""
    roles = dict(Membership.objects.filter(user=user).values_list("project_id", "role"))
    return QueueViewer(
        user=user,
        member_of=None if user.is_platform_admin else frozenset(roles),
        administers=frozenset(pk for pk, role in roles.items() if role == Role.ADMIN),
        may_cancel=cancel_permission(user),
        sees_names=names == "all",
    )


def queue_row(job: Job, viewer: QueueViewer, bypass_limit: int) -> QueueRow:
    reason = job.reason or {}
    is_open = viewer.may_open(job)
    is_known = is_open or viewer.sees_names
    may = viewer.may_cancel(job)
    none = no_estimate_for_job(job)
    return QueueRow(
        job=job,
        is_mine=job.owner_id == viewer.user.pk,
        shows_names=is_known,
        may_open=is_open,
        badge=reason_badge(str(reason.get("code", ""))),
        sentence=stored_text(reason) if is_known else "",
        unblocks=stored_text(reason, "unblocks") if is_open else "",
        expected=expected_start(job),
        no_estimate=message_text(none) if none else "",
        waited=elapsed(job.queued_at or job.submitted_at, None),
        time_left_limit=duration(max(0, job.time_limit_seconds - job.attained_seconds)),
        factors=_factors(job, bypass_limit),
        may_hold=may and not job.held_by,
        may_release=_may_release(job, viewer, may=may),
        may_decide=job.status == JobStatus.AWAITING_APPROVAL and viewer.decides(job),
    )


def _may_release(job: Job, reader: QueueViewer, *, may: bool) -> bool:
    if not (may and job.held_by):
        return False
    return job.held_by == reader.user.username or reader.decides(job)


def _factors(job: Job, bypass_limit: int) -> list[str]:
    found = []
    if job.bypassed:
        found.append(
            ngettext("overtaken %(n)s time", "overtaken %(n)s times", job.bypassed)
            % {"n": f"{job.bypassed:,}"}
        )
    if job.bypassed >= bypass_limit:
        found.append(_("due: first in its band"))
    if job.preempted:
        found.append(
            ngettext(
                "stopped for others %(n)s time", "stopped for others %(n)s times", job.preempted
            )
            % {"n": job.preempted}
        )
    return found


@dataclass(frozen=True, slots=True)
class LeavingRow:
    leaving: EndingJob
    is_mine: bool
    shows_names: bool
    may_open: bool
    remaining: str


def leaving_row(leaving: EndingJob, viewer: QueueViewer) -> LeavingRow:
    job = leaving.job
    is_open = viewer.may_open(job)
    return LeavingRow(
        leaving=leaving,
        is_mine=job.owner_id == viewer.user.pk,
        shows_names=is_open or viewer.sees_names,
        may_open=is_open,
        remaining=elapsed(timezone.now(), leaving.ends_at),
    )
