"""The inbox of who decides about approvals: what waits for a yes, and what a yes would do.

approvals_for(user) ─▶ Asking: holds, may use, quota and budget with it
starts_if_approved(jobs) ─▶ one planning pass with all of them in the queue; changes nothing
approvals_decide(refs, …) ─▶ job_approve or job_refuse for each, audited by them
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from agents.contract.phrase import Phrase
from portal.accounts.models import Membership, Role, User
from portal.allocations.budgets import current_budgets
from portal.errors import Refused
from portal.inventory.boards import cluster_boards
from portal.jobs.holds import job_approve, job_refuse
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible, jobs_visible_to
from portal.planning.estimates import estimate_as_dict
from portal.planning.requests import waiting_jobs_from_rows
from portal.planning.snapshot import quota_views
from portal.planning.snapshot_cache import current_snapshot
from portal.quotas.limits import LimitEffect, limit_effects
from portal.submission.admission import cheapest
from portal.text import single_line
from scheduler.core.forecast.pass_estimates import estimate_starts
from scheduler.core.model.states import JobStatus
from scheduler.core.plan import plan_and_can_start
from scheduler.core.request import parse_stored_request

# So many are decided in one go: each is a transaction of its own.
MAX_DECISIONS = 100


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A job that waits for a yes. `units` it would hold, `unit_seconds` it may use at most."""

    job: Job
    units: int
    unit_seconds: int
    limits: tuple[LimitEffect, ...]


@dataclass(frozen=True, slots=True)
class StartIfApproved:
    """What a yes would lead to: `at_once`, or an estimate and a reason as a job's row has them."""

    at_once: bool
    estimate: dict[str, Any] | None
    reason: dict[str, Any] | None


def jobs_to_approve(user: User) -> QuerySet[Job]:
    """The jobs that wait for this person's yes or no, the oldest first."""
    rows = jobs_visible_to(user).filter(status=JobStatus.AWAITING_APPROVAL)
    if not user.is_platform_admin:
        led = Membership.objects.filter(user=user, role=Role.ADMIN).values("project_id")
        rows = rows.filter(project_id__in=led)
    return rows.order_by("id")


def may_decide_approvals(user: User) -> bool:
    """Whether there is any project whose approvals this person decides."""
    if user.is_platform_admin:
        return True
    return Membership.objects.filter(user=user, role=Role.ADMIN).exists()


def approval_requests(jobs: Sequence[Job]) -> list[ApprovalRequest]:
    """What each would count against. A fixed number of queries."""
    if not jobs:
        return []
    boards, quotas, budgets = cluster_boards(), quota_views(), current_budgets(timezone.now())
    found = []
    for job in jobs:
        units, _ = cheapest(parse_stored_request(job.request), boards)
        seconds = job.time_limit_seconds
        owner = {"project": job.project.slug, "user": job.owner.username}
        limits = limit_effects(quotas, budgets, **owner, units=units, seconds=seconds)
        found.append(ApprovalRequest(job, units, units * seconds, limits))
    return found


def starts_if_approved(jobs: Sequence[Job]) -> dict[int, StartIfApproved]:
    """By job: what the next pass would do if all of these were approved now. The production planner
    on the rows of now."""
    with current_snapshot().locked() as world:
        asked = {
            int(one.id): replace(one, hold_reason="", queued_at=world.snapshot.now)
            for one in waiting_jobs_from_rows(jobs)
        }
        snapshot = replace(world.snapshot, jobs=(*world.snapshot.jobs, *asked.values()))
        how = (snapshot, world.policy, world.outlook)
        decided, _ = plan_and_can_start(*how)
        foretold = estimate_starts(*how, decided, world.past_estimates)
    reasons = {hold.job: hold.reason for hold in decided.deferrals}
    return {pk: _start(one.id, reasons, foretold) for pk, one in asked.items()}


def _start(key: str, reasons: dict[str, Any], foretold: Any) -> StartIfApproved:
    reason = reasons.get(key)
    if reason is None:
        return StartIfApproved(True, None, None)
    told = foretold.get(key)
    estimate = estimate_as_dict(told) if told and told.is_published else None
    return StartIfApproved(False, estimate, reason.as_dict())


def approvals_decide(
    *, refs: Iterable[str], actor: User, approve: bool, reason: str
) -> list[tuple[str, Refused | None]]:
    """Say yes or no to each: its label, and what stood against it. One that cannot be decided any
    more does not keep the others. Raises Refused(reason_missing, none_chosen, too_many)."""
    wanted = list(dict.fromkeys(refs))
    if not wanted:
        raise Refused("none_chosen", "Choose at least one job", "job")
    if len(wanted) > MAX_DECISIONS:
        sentence = Phrase("Decide about at most %(n)s jobs at once", n=MAX_DECISIONS)
        raise Refused("too_many", sentence, "job")
    if not approve and not single_line(reason):
        raise Refused("reason_missing", "Say why: its owner will read it", "because")
    return [(ref, _decide(ref, actor, approve, reason)) for ref in wanted]


def _decide(ref: str, by: User, approve: bool, because: str) -> Refused | None:
    decide = job_approve if approve else job_refuse
    try:
        decide(job=job_visible(by, ref), actor=by, because=because)
    except Refused as refused:
        return refused
    return None
