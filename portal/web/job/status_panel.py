"""The panel above a job's log: what it waits for, what is being done, how it ended."""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from portal.jobs.models import Attempt, Job, Replica
from portal.planning.estimates import no_estimate_for_code, no_estimate_for_job
from portal.planning.visible_reasons import visible_reason
from portal.web.wording.evidence import evidence_rows
from portal.web.wording.labels import elapsed, exit_meaning
from portal.web.wording.messages import failure_text, message_text, stored_text
from portal.web.wording.start_estimates import ExpectedStart, expected_start
from scheduler.core.model.reasons import ReasonClass
from scheduler.core.model.states import JobStatus, SliceStatus

# Waiting is normal and grey; only what someone has to act on has a colour of its own.
REASON_STYLES = {
    ReasonClass.WAIT: ("wait", "clock"),
    ReasonClass.CHANGE: ("warn", "alert"),
    ReasonClass.ASK: ("ask", "ask"),
}


@dataclass(frozen=True, slots=True)
class StatusPanel:
    """`title` is the one sentence; `evidence` its numbers by name, `code` the reason's code;
    `instead` what would start now: in words, its changes, and the address of the form with them.
    `may_take`: one click makes this job that one. `no_estimate` stands in place of `expected`."""

    cls: str
    icon: str
    title: str
    sentence: str = ""
    code: str = ""
    evidence: list[tuple[str, str]] = field(default_factory=list)
    expected: ExpectedStart | None = None
    alternatives: list[tuple[str, str, str]] = field(default_factory=list)
    may_replace: bool = False
    no_estimate: str = ""


def status_panel(
    job: Job,
    attempt: Attempt | None,
    replicas: list[Replica],
    projects: frozenset[str] | None = frozenset(),
    *,
    may_replace: bool = False,
) -> StatusPanel | None:
    """For somebody who knows these projects, and may make another job of it. None while a job
    simply runs."""
    match JobStatus(job.status):
        case JobStatus.SUBMITTED | JobStatus.AWAITING_APPROVAL | JobStatus.QUEUED:
            return _waiting(job, visible_reason(job.reason, projects), may_replace)
        case JobStatus.PLACED | JobStatus.PREPARING:
            return _starting(replicas)
        case JobStatus.STOPPING:
            return StatusPanel(
                "move", "stop", _("Stopping: its processes may still end by themselves")
            )
        case JobStatus.SUCCEEDED:
            ran = elapsed(job.started_at, job.finished_at)
            return StatusPanel(
                "ok", "check", _("Ended well"), _("It ran for %(ran)s") % {"ran": ran}
            )
        case JobStatus.CANCELLED:
            return StatusPanel("wait", "stop", _("Cancelled"), _("It uses nothing any more"))
        case JobStatus.TIMED_OUT:
            change = _("Clone it with a longer limit, or let it go on from a checkpoint")
            return StatusPanel("warn", "clock", _("Its time limit was over"), change)
        case JobStatus.FAILED:
            return _failed(attempt)
        case _:
            return None


def _waiting(job: Job, reason: dict[str, Any] | None, may_take: bool) -> StatusPanel:
    if not reason:
        title = _("In the queue: the planner looks at it in a moment")
        return StatusPanel(
            "wait", "clock", title, no_estimate=message_text(no_estimate_for_code(""))
        )
    cls, icon = REASON_STYLES[ReasonClass(reason["class"])]
    return StatusPanel(
        cls,
        icon,
        stored_text(reason),
        stored_text(reason, "unblocks"),
        reason["code"],
        evidence_rows(reason),
        expected_start(job),
        [_instead(job, one) for one in reason.get("alternatives", ())],
        may_take,
        message_text(none) if (none := no_estimate_for_job(job)) else "",
    )


def _instead(job: Job, one: dict[str, Any]) -> tuple[str, str, str]:
    changes = json.dumps(one["changes"], sort_keys=True)
    query = urlencode({"like": job.label, "change": changes})
    return stored_text(one), changes, f"{reverse('web:request')}?{query}"


def _starting(replicas: list[Replica]) -> StatusPanel:
    nodes = ", ".join(sorted({replica.node.name for replica in replicas}))
    waits = [
        held.slice
        for replica in replicas
        for held in replica.allocations.all()
        if held.slice.status != SliceStatus.READY
    ]
    if waits:
        sentence = _("What runs beside them goes on. This takes seconds")
        title = _("Its slices are being carved on %(nodes)s")
    else:
        sentence = _("Its containers are made. They start together, when all of them are ready")
        title = _("Getting ready on %(nodes)s")
    return StatusPanel("move", "bolt", title % {"nodes": nodes}, sentence)


def _failed(attempt: Attempt | None) -> StatusPanel:
    failure = (attempt.first_failure if attempt else None) or {}
    title = failure_text(failure) or _("It failed")
    sentence = ""
    if failure.get("exit_code") is not None:
        memory_kill = failure.get("code") == "memory_kill"
        sentence = exit_meaning(failure["exit_code"], memory_kill=memory_kill)
        sentence += ". " + _("The first to fail was rank %(rank)s") % {"rank": failure["rank"]}
    elif failure.get("status") == "lost":
        sentence = _("Not your code; it costs no user retry")
    return StatusPanel("bad", "x", title, sentence, str(failure.get("code", "")))
