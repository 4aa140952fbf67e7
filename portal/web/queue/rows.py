"""The rows of the Queue page as one user may see them: for a job of another project, its request
and its reason, but not its owner."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import Membership, Role, User
from portal.jobs.bulk_cancel import cancel_permission
from portal.jobs.models import Job
from portal.planning.estimates import no_estimate_for_job
from portal.planning.queue_selectors import EndingJob
from portal.web.queue.order_score import OrderScore
from portal.web.wording.labels import Badge, duration, elapsed
from portal.web.wording.messages import message_text, stored_text
from portal.web.wording.reason_badges import reason_badge
from portal.web.wording.start_estimates import StartRange, expected_start
from portal.web.wording.wait_bounds import bound_text
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class QueueViewer:
    """A user and their rights over the jobs of the queue."""

    user: User
    member_of: frozenset[int] | None
    """Ids of the projects whose jobs they may open; None for all."""
    administers: frozenset[int]
    """Ids of the projects whose approvals they decide."""
    may_cancel: Callable[[Job], bool]
    sees_names: bool
    """The platform shows the names of all jobs to everybody."""

    def may_open(self, job: Job) -> bool:
        return self.member_of is None or job.project_id in self.member_of

    def may_name(self, job: Job) -> bool:
        """Whether its name, owner and project may be shown."""
        return self.sees_names or self.may_open(job)

    def may_decide(self, job: Job) -> bool:
        return self.user.is_platform_admin or job.project_id in self.administers


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A waiting job."""

    job: Job
    is_mine: bool
    shows_names: bool
    """Its name, owner and project may be shown."""
    may_open: bool
    """Its page may be opened."""
    badge: Badge
    sentence: str = ""
    unblocks: str = ""
    """For its owner."""
    expected: StartRange | None = None
    no_estimate: str = ""
    bound: str = ""
    """When the wait ends at the latest; it names jobs only where these may be seen."""
    waited: str = ""
    max_runtime: str = ""
    """"up to" what is left of its time limit."""
    priority: str = ""
    factors: list[str] = field(default_factory=list)
    """What moved it within its priority band."""
    score: OrderScore | None = None
    may_hold: bool = False
    may_release: bool = False
    may_decide: bool = False


def queue_viewer(user: User, memberships: Iterable[Membership], *, names: str) -> QueueViewer:
    """`memberships`: the user's; `names`: the platform's setting, "all" or "own"."""
    roles = {each.project_id: each.role for each in memberships}
    administers = frozenset(pk for pk, role in roles.items() if role == Role.ADMIN)
    return QueueViewer(
        user=user,
        member_of=None if user.is_platform_admin else frozenset(roles),
        administers=administers,
        may_cancel=cancel_permission(user, administers),
        sees_names=names == "all",
    )


def row_badge(job: Job) -> Badge:
    """Of the reason why it waits."""
    return reason_badge(str((job.reason or {}).get("code", "")))


def row_waited(job: Job) -> str:
    return elapsed(job.queued_at or job.submitted_at, None)


def queue_row(
    job: Job, viewer: QueueViewer, bypass_limit: int, score: OrderScore | None = None
) -> QueueRow:
    reason = job.reason or {}
    may_open, shows_names = viewer.may_open(job), viewer.may_name(job)
    may_cancel, is_mine = viewer.may_cancel(job), job.owner_id == viewer.user.pk
    no_estimate = no_estimate_for_job(job)
    left = max(0, job.time_limit_seconds - job.attained_seconds)
    return QueueRow(
        job=job,
        is_mine=is_mine,
        shows_names=shows_names,
        may_open=may_open,
        badge=row_badge(job),
        sentence=stored_text(reason) if shows_names else "",
        unblocks=stored_text(reason, "unblocks") if is_mine and may_open else "",
        expected=expected_start(job),
        no_estimate=message_text(no_estimate) if no_estimate else "",
        bound=bound_text(job, names_visible=may_open),
        waited=row_waited(job),
        max_runtime=_("up to %(time)s") % {"time": duration(left)},
        priority=_(job.priority),
        factors=_factors(job, bypass_limit),
        score=score,
        may_hold=may_cancel and not job.hold_owner,
        may_release=may_cancel and _may_release(job, viewer),
        may_decide=job.status == JobStatus.AWAITING_APPROVAL and viewer.may_decide(job),
    )


def _may_release(job: Job, viewer: QueueViewer) -> bool:
    if not job.hold_owner:
        return False
    return job.hold_owner == viewer.user.username or viewer.may_decide(job)


def _factors(job: Job, bypass_limit: int) -> list[str]:
    factors = []
    if job.bypassed:
        factors.append(
            ngettext("bypassed %(n)s time", "bypassed %(n)s times", job.bypassed)
            % {"n": f"{job.bypassed:,}"}
        )
    if job.bypassed >= bypass_limit:
        factors.append(_("bypass limit reached: first in its band"))
    if job.preempted:
        factors.append(
            ngettext("preempted %(n)s time", "preempted %(n)s times", job.preempted)
            % {"n": job.preempted}
        )
    return factors


@dataclass(frozen=True, slots=True)
class EndingJobRow:
    """A running job that frees its devices next."""

    ending: EndingJob
    is_mine: bool
    shows_names: bool
    may_open: bool
    remaining: str
    """The time left until its limit."""


def ending_job_row(ending: EndingJob, viewer: QueueViewer) -> EndingJobRow:
    job = ending.job
    return EndingJobRow(
        ending=ending,
        is_mine=job.owner_id == viewer.user.pk,
        shows_names=viewer.may_name(job),
        may_open=viewer.may_open(job),
        remaining=elapsed(timezone.now(), ending.ends_at),
    )
