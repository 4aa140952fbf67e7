"""Ask an admin to raise the limit that a job waits for, and decide about it.

limit_request_make(job, actor)      ─▶ a LimitRequest: the smallest limit with which the job fits
limit_request_decide(id, actor, …)  ─▶ granted: the quota is raised in the same transaction
                                       declined: with a reason; both are in the job's history

A budget or a cap is changed by hand: granting such a request says that it was done.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from agents.contract.message import Message
from agents.contract.units import UNITS_PER_GPU
from portal.accounts.models import User
from portal.accounts.selectors import is_project_admin
from portal.audit.codes import AuditAction, EventCode
from portal.audit.services import audit_record
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Gpu
from portal.jobs.models import Job
from portal.live.bell import ring
from portal.planning.offers import job_offers
from portal.quotas.figures import QuotaFigures, quota_figures
from portal.quotas.models import LimitRequest, LimitRequestStatus, Quota
from portal.quotas.services import quota_set
from portal.text import single_line
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.quota.promises import QuotaPromise

MAX_NOTE = 200
QUOTA_CODES = (ReasonCode.QUOTA_PROJECT, ReasonCode.QUOTA_USER)


@dataclass(frozen=True, slots=True)
class LimitRequestEffect:
    """What granting a request changes, in units; a budget or cap has only its reason."""

    request: LimitRequest
    figures: QuotaFigures | None = None
    """Of the quota as it is now; None for a budget or a cap, and for a quota that is gone."""
    all_quotas_after: int = 0
    """The limits of all projects together."""
    cluster_units: int = 0

    @property
    def is_overbooked(self) -> bool:
        """Not every project can have all of its quota at once any more."""
        return self.all_quotas_after > self.cluster_units


def limit_request_make(*, job: Job, actor: User, note: str = "") -> LimitRequest:
    """Ask for the limit that this job waits for. A request that is still open is returned as it is.

    Raises Refused(forbidden, not_waiting).
    """
    if job.owner_id != actor.pk:
        raise Refused(ErrorCode.FORBIDDEN, "Only a job's owner may request a higher limit for it")
    with transaction.atomic():
        (row,) = Job.objects.filter(pk=job.pk).select_related("project", "owner").lock_rows()
        if not job_offers(row).asks:
            sentence = Message(
                "%(job)s is not waiting for a limit that an admin could raise", job=row.label
            )
            raise Refused(ErrorCode.NOT_WAITING, sentence)
        open_request = LimitRequest.objects.filter(job=row, status=LimitRequestStatus.OPEN).first()
        if open_request is not None:
            return open_request
        made = LimitRequest.objects.create(
            job=row,
            project=row.project,
            asker=actor,
            note=single_line(note)[:MAX_NOTE],
            created_at=timezone.now(),
            **_limit_of(row),
        )
        message = Message("%(user)s asked an admin for a higher limit", user=actor.username)
        _record(made, AuditAction.LIMIT_REQUEST, EventCode.LIMIT_REQUEST, message, actor)
    return made


def limit_request_decide(
    *, request_id: int, actor: User, grant: bool, answer: str = ""
) -> LimitRequest:
    """Grant: raise the quota and say so. Decline: with the reason, which the asker reads.

    Raises Refused(not_found, reason_missing, not_awaiting, over_project_limit).
    """
    answer = single_line(answer)[:MAX_NOTE]
    if not grant and not answer:
        raise Refused(
            ErrorCode.REASON_MISSING, "Give a reason: the job's owner will read it", "answer"
        )
    with transaction.atomic():
        rows = LimitRequest.objects.select_for_update(of=("self",)).filter(pk=request_id)
        row = rows.select_related("project", "user", "asker", "job").first()
        if row is None or not _may_decide(actor, row):
            sentence = "There is no such request, or you may not decide it"
            raise Refused(ErrorCode.NOT_FOUND, sentence)
        if row.status != LimitRequestStatus.OPEN:
            raise Refused(ErrorCode.NOT_AWAITING, "This request has been decided already")
        if grant and row.limit_units is not None:
            _raise_quota(row, actor)
        row.status = LimitRequestStatus.GRANTED if grant else LimitRequestStatus.DECLINED
        row.answer, row.decider, row.decided_at = answer, actor.username, timezone.now()
        row.save(update_fields=["status", "answer", "decider", "decided_at"])
        action = AuditAction.LIMIT_GRANT if grant else AuditAction.LIMIT_DECLINE
        code = EventCode.LIMIT_GRANT if grant else EventCode.LIMIT_DECLINE
        _record(row, action, code, _answer_message(actor, grant=grant, answer=answer), actor)
    return row


def limit_request_effects(
    rows: list[LimitRequest], promises: Collection[QuotaPromise]
) -> list[LimitRequestEffect]:
    """`promises`: of the projects of these requests. Three queries, however many requests."""
    projects = {row.project_id for row in rows}
    quotas = {
        (q.project_id, q.user_id, q.model): q
        for q in Quota.objects.filter(project__in=projects).select_related("project", "user")
    }
    everything = Quota.objects.filter(user__isnull=True, model="")
    total = everything.aggregate(units=Sum("limit_units"))["units"] or 0
    cluster_units = Gpu.objects.active().count() * UNITS_PER_GPU
    effects = []
    for row in rows:
        quota = quotas.get((row.project_id, row.user_id, row.model))
        if row.limit_units is None or quota is None:
            effects.append(LimitRequestEffect(row))
            continue
        is_counted = row.user_id is None and not row.model
        more = max(0, row.limit_units - quota.limit_units) if is_counted else 0
        figures = quota_figures(quota, promises)
        effects.append(LimitRequestEffect(row, figures, total + more, cluster_units))
    return effects


def _limit_of(job: Job) -> dict[str, Any]:
    """Whose limit, of which model, and how high it has to be for the job to fit beside what is held
    now and kept for jobs ahead."""
    reason = job.reason or {}
    code, evidence = reason["code"], reason.get("evidence", {})
    limit: dict[str, Any] = {
        "code": code,
        "user": job.owner if code == ReasonCode.QUOTA_USER else None,
        "model": str(evidence.get("model", "")),
        "limit_units": None,
    }
    if code in QUOTA_CODES and {"used_units", "needed_units"} <= evidence.keys():
        amounts = (evidence.get(f"{name}_units", 0) for name in ("used", "promised", "needed"))
        limit["limit_units"] = sum(map(int, amounts))
    return limit


def _may_decide(actor: User, row: LimitRequest) -> bool:
    if row.user_id is not None:
        return is_project_admin(actor, row.project_id)
    return actor.is_platform_admin


def _raise_quota(row: LimitRequest, actor: User) -> None:
    """Never lowered: the limit may have been raised by more meanwhile."""
    quota = Quota.objects.filter(project=row.project, user=row.user, model=row.model).first()
    wanted = row.limit_units or 0
    if quota is None or quota.limit_units >= wanted:
        return
    quota_set(
        project=row.project,
        user=row.user,
        model=row.model,
        limit_units=wanted,
        actor=actor.username,
    )


def _answer_message(actor: User, *, grant: bool, answer: str) -> Message:
    values = {"user": actor.username, "because": answer}
    if not grant:
        return Message("%(user)s declined the higher limit: %(because)s", **values)
    if answer:
        return Message("%(user)s granted the higher limit: %(because)s", **values)
    return Message("%(user)s granted the higher limit", user=actor.username)


def _record(
    row: LimitRequest, action: AuditAction, code: EventCode, message: Message, actor: User
) -> None:
    facts = {"job": row.job.label, "limit_units": row.limit_units, "code": row.code}
    texts = {name: text for name, text in (("note", row.note), ("answer", row.answer)) if text}
    event_record(row.job, code, message, actor=actor.username)
    audit_record(
        actor=actor.username,
        action=action,
        noun="limit_request",
        noun_id=row.pk,
        project=row.project,
        after=facts | texts,
    )
    ring(f"job:{row.job_id}")
