"""A line of the queue as one person may read it: of other projects, what is asked and why it waits,
but not whose it is."""

from collections.abc import Callable
from dataclasses import dataclass, field

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import Membership, Role, User
from portal.jobs.bulk_cancel import cancel_right
from portal.jobs.models import Job
from portal.planning.estimates import why_no_estimate
from portal.planning.queue_selectors import Leaving
from portal.web.wording.labels import Badge, between, duration
from portal.web.wording.messages import here, told
from portal.web.wording.reason_badges import reason_badge
from portal.web.wording.start_estimates import Expected, expected_of
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads: the projects whose names they know (None: all), the ones whose approvals they
    decide, and what they may end or hold. `sees_names`: names of everybody, by the platform's
    setting."""

    user: User
    member_of: frozenset[int] | None
    runs: frozenset[int]
    right: Callable[[Job], bool]
    sees_names: bool

    def may_open(self, job: Job) -> bool:
        return self.member_of is None or job.project_id in self.member_of

    def decides(self, job: Job) -> bool:
        return self.user.is_platform_admin or job.project_id in self.runs


@dataclass(frozen=True, slots=True)
class QueueRow:
    """`is_known`: its names may be read; `is_open`: its page as well. `factors`: what its place
    rests on, beside its band."""

    job: Job
    is_mine: bool
    is_known: bool
    is_open: bool
    badge: Badge
    sentence: str = ""
    unblocks: str = ""
    expected: Expected | None = None
    no_estimate: str = ""
    waited: str = ""
    most: str = ""
    factors: list[str] = field(default_factory=list)
    may_hold: bool = False
    may_release: bool = False
    may_decide: bool = False


def reader_of(user: User, *, names: str) -> Reader:
    """`names`: the platform's setting, "all" or "own". One or two queries."""
    roles = dict(Membership.objects.filter(user=user).values_list("project_id", "role"))
    return Reader(
        user=user,
        member_of=None if user.is_platform_admin else frozenset(roles),
        runs=frozenset(pk for pk, role in roles.items() if role == Role.ADMIN),
        right=cancel_right(user),
        sees_names=names == "all",
    )


def queue_row(job: Job, reader: Reader, bypass_limit: int) -> QueueRow:
    reason = job.reason or {}
    is_open = reader.may_open(job)
    is_known = is_open or reader.sees_names
    may = reader.right(job)
    none = why_no_estimate(job)
    return QueueRow(
        job=job,
        is_mine=job.owner_id == reader.user.pk,
        is_known=is_known,
        is_open=is_open,
        badge=reason_badge(str(reason.get("code", ""))),
        sentence=told(reason) if is_known else "",
        unblocks=told(reason, "unblocks") if is_open else "",
        expected=expected_of(job),
        no_estimate=here(none) if none else "",
        waited=between(job.queued_at or job.submitted_at, None),
        most=duration(max(0, job.time_limit_seconds - job.attained_seconds)),
        factors=_factors(job, bypass_limit),
        may_hold=may and not job.held_by,
        may_release=_may_release(job, reader, may=may),
        may_decide=job.status == JobStatus.AWAITING_APPROVAL and reader.decides(job),
    )


def _may_release(job: Job, reader: Reader, *, may: bool) -> bool:
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
    leaving: Leaving
    is_mine: bool
    is_known: bool
    is_open: bool
    left: str


def leaving_row(leaving: Leaving, reader: Reader) -> LeavingRow:
    job = leaving.job
    is_open = reader.may_open(job)
    return LeavingRow(
        leaving=leaving,
        is_mine=job.owner_id == reader.user.pk,
        is_known=is_open or reader.sees_names,
        is_open=is_open,
        left=between(timezone.now(), leaving.until),
    )
