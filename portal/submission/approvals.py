"""The inbox of an approver: which jobs await a decision, and what an approval would lead to.

approval_inbox(jobs)         ─▶ a row for each job or array
approval_requests(jobs)      ─▶ what each job would use, and every limit it counts against
starts_if_approved(jobs)     ─▶ one planning pass with all of them in the queue; changes nothing
approvals_decide(refs, …)    ─▶ each job or array approved or refused, with its own audit line
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, Min, QuerySet
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import Membership, Role, User
from portal.allocations.budgets import current_budgets
from portal.arrays.selectors import array_visible
from portal.arrays.services import array_approve, array_refuse
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.boards import cluster_boards
from portal.jobs.holds import job_approve, job_refuse
from portal.jobs.models import Job
from portal.jobs.querysets import ROW_KEY
from portal.jobs.selectors import ARRAY_LABEL, job_visible, jobs_visible_to
from portal.planning.estimates import estimate_as_dict
from portal.planning.requests import waiting_jobs_from_rows
from portal.planning.snapshot import quota_views
from portal.planning.snapshot_cache import current_snapshot
from portal.quotas.limits import LimitEffect, limit_effects
from portal.submission.admission import cheapest
from portal.text import single_line
from scheduler.core.forecast.pass_estimates import PassEstimate, estimate_starts
from scheduler.core.model.reasons import Reason
from scheduler.core.model.states import JobStatus
from scheduler.core.plan import plan_and_can_start
from scheduler.core.request import parse_stored_request

# In one call; each decision is a transaction of its own.
MAX_DECISIONS = 100


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A job that awaits approval, or the members of an array that do."""

    job: Job
    """Of an array, the first of them."""
    units: int
    """What the whole gang would have at once; of an array, as many members as may run at once."""
    unit_seconds: int
    """What it may use at most."""
    limits: tuple[LimitEffect, ...]
    members: int = 0
    """How many members of the array await approval; 0 of a job of no array."""
    at_once: int = 1
    """How many of them may run at once."""
    member_units: int = 0
    """What each of them would have."""

    @property
    def label(self) -> str:
        """What is decided on: J-12 or A-5."""
        return f"A-{self.job.array_id}" if self.members else self.job.label


@dataclass(frozen=True, slots=True)
class ApprovalInbox:
    """Jobs that await approval; of each array, its first member that does."""

    jobs: list[Job]
    """As many as were asked for."""
    members: dict[int, int]
    """By the key of each array, how many of its members await approval."""
    row_count: int
    job_count: int


@dataclass(frozen=True, slots=True)
class StartIfApproved:
    """A start at once, or an estimate and a reason as a job's row has them."""

    at_once: bool
    estimate: dict[str, Any] | None
    reason: dict[str, Any] | None


def jobs_to_approve(user: User) -> QuerySet[Job]:
    """The jobs that this user can approve or refuse, oldest first."""
    rows = jobs_visible_to(user).filter(status=JobStatus.AWAITING_APPROVAL)
    if not user.is_platform_admin:
        led = Membership.objects.filter(user=user, role=Role.ADMIN).values("project_id")
        rows = rows.filter(project_id__in=led)
    return rows.order_by("id")


def approval_inbox(jobs: QuerySet[Job], size: int) -> ApprovalInbox:
    """Of these jobs. Two queries."""
    grouped = jobs.order_by().values_list(ROW_KEY).annotate(Min("pk"), Count("pk"))
    found = sorted((first, key, count) for key, first, count in grouped)
    firsts = [first for first, _, _ in found[:size]]
    return ApprovalInbox(
        jobs=list(jobs.filter(pk__in=firsts)),
        members={key: count for _, key, count in found if key > 0},
        row_count=len(found),
        job_count=sum(count for _, _, count in found),
    )


def may_decide_approvals(user: User) -> bool:
    """Whether the user decides on approvals of any project."""
    if user.is_platform_admin:
        return True
    return Membership.objects.filter(user=user, role=Role.ADMIN).exists()


def approval_requests(
    jobs: Sequence[Job], members: Mapping[int, int] | None = None
) -> list[ApprovalRequest]:
    """The limits that each job would count against. A fixed number of queries.

    `members`: by the key of each array for which one of the jobs stands, how many it stands for.
    """
    if not jobs:
        return []
    members = members or {}
    boards, quotas, budgets = cluster_boards(), quota_views(), current_budgets(timezone.now())
    found = []
    for job in jobs:
        own_units, _ = cheapest(parse_stored_request(job.request), boards)
        count = members.get(job.array_id or 0, 0)
        at_once = min(count, job.array_cap or count) or 1
        units = own_units * at_once
        seconds = job.time_limit_seconds * -(-(count or 1) // at_once)
        limits = limit_effects(
            quotas,
            budgets,
            project=job.project.slug,
            user=job.owner.username,
            units=units,
            seconds=seconds,
        )
        unit_seconds = own_units * job.time_limit_seconds * (count or 1)
        found.append(ApprovalRequest(job, units, unit_seconds, limits, count, at_once, own_units))
    return found


def starts_if_approved(jobs: Sequence[Job]) -> dict[int, StartIfApproved]:
    """By job: what the next pass would do if all of these were approved now."""
    with current_snapshot().locked() as cached:
        approved = [
            replace(job, hold_reason="", queued_at=cached.snapshot.now)
            for job in waiting_jobs_from_rows(jobs)
        ]
        snapshot = replace(cached.snapshot, jobs=(*cached.snapshot.jobs, *approved))
        given = (snapshot, cached.policy, cached.runtime_model)
        plan, _ = plan_and_can_start(*given)
        estimates = estimate_starts(*given, plan, cached.past_estimates)
    reasons = {deferral.job: deferral.reason for deferral in plan.deferrals}
    return {int(job.id): _start(reasons.get(job.id), estimates.get(job.id)) for job in approved}


def _start(reason: Reason | None, estimate: PassEstimate | None) -> StartIfApproved:
    if reason is None:
        return StartIfApproved(True, None, None)
    is_published = estimate is not None and estimate.is_published
    stored = estimate_as_dict(estimate) if estimate and is_published else None
    return StartIfApproved(False, stored, reason.as_dict())


def approvals_decide(
    *, refs: Iterable[str], actor: User, approve: bool, reason: str
) -> list[tuple[str, Refused | None]]:
    """Approve or refuse each job, and of each array all members that await it: its label, and the
    refusal if it could not be decided. A failure does not stop the others.

    Raises Refused(reason_missing, none_chosen, too_many).
    """
    labels = list(dict.fromkeys(refs))
    if not labels:
        raise Refused(ErrorCode.NONE_CHOSEN, "Choose at least one job", "job")
    if len(labels) > MAX_DECISIONS:
        sentence = Message("Decide on at most %(n)s jobs at once", n=MAX_DECISIONS)
        raise Refused(ErrorCode.TOO_MANY_ITEMS, sentence, "job")
    if not approve and not single_line(reason):
        raise Refused(
            ErrorCode.REASON_MISSING, "Give a reason: the job's owner will read it", "because"
        )
    return [(ref, _decide(ref, actor, approve, reason)) for ref in labels]


def _decide(ref: str, actor: User, approve: bool, reason: str) -> Refused | None:
    try:
        if ARRAY_LABEL.fullmatch(ref):
            array = array_visible(actor, ref)
            if approve:
                array_approve(array=array, actor=actor, comment=reason)
            else:
                array_refuse(array=array, actor=actor, reason=reason)
            return None
        job = job_visible(actor, ref)
        if approve:
            job_approve(job=job, actor=actor, comment=reason)
        else:
            job_refuse(job=job, actor=actor, reason=reason)
    except Refused as refused:
        return refused
    return None
