"""The panel above a job's log: what the job waits for, what is being prepared, or how it ended."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from agents.contract.end_causes import END_CAUSES
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.preflights import attempt_image
from portal.jobs.pulls import replica_pull
from portal.planning.estimates import no_estimate_for_code, no_estimate_for_job
from portal.planning.offers import job_offers
from portal.planning.visible_reasons import visible_reason
from portal.web.job.diagnosis import ShownDiagnosis, shown_diagnosis
from portal.web.job.idle import idle_end
from portal.web.wording.evidence import unsaid_evidence
from portal.web.wording.labels import elapsed, exit_meaning
from portal.web.wording.messages import failure_text, message_text, stored_text
from portal.web.wording.reason_badges import REASON_STYLES
from portal.web.wording.start_estimates import StartRange, expected_start
from portal.web.wording.wait_bounds import bound_text
from scheduler.core.model.reasons import ReasonClass
from scheduler.core.model.states import JobStatus, SliceStatus


@dataclass(frozen=True, slots=True)
class PanelAlternative:
    """A changed request that would start now."""

    label: str
    changes: str
    """The changed fields of the request, as JSON."""
    address: str
    """The request form with the change filled in."""


@dataclass(frozen=True, slots=True)
class PanelStop:
    """A running job of the same owner that would make room."""

    label: str
    name: str
    loss: str
    """What would be lost."""
    address: str
    """The page that asks before it stops the job."""


@dataclass(frozen=True, slots=True)
class PanelPull:
    """The pull of the job's image on one node."""

    location: str
    sentence: str
    percent: int | None
    """None while the size is unknown, and between two tries."""


@dataclass(frozen=True, slots=True)
class StatusPanel:
    """The title is the answer; the rest supports it."""

    cls: str
    """The colour class of the panel."""
    icon: str
    title: str
    sentence: str = ""
    code: str = ""
    """Of the reason or the failure."""
    evidence: list[tuple[str, str]] = field(default_factory=list)
    """Labels and values."""
    expected: StartRange | None = None
    alternatives: list[PanelAlternative] = field(default_factory=list)
    may_replace: bool = False
    """One click replaces the job by an alternative."""
    bound: str = ""
    """When the wait ends at the latest, and who ends it."""
    stops: list[PanelStop] = field(default_factory=list)
    no_estimate: str = ""
    """Why there is no expected start."""
    pulls: list[PanelPull] = field(default_factory=list)
    diagnosis: ShownDiagnosis | None = None
    """Of a failed job."""


def status_panel(
    job: Job,
    attempt: Attempt | None,
    replicas: list[Replica],
    projects: frozenset[str] | None = frozenset(),
    *,
    may_replace: bool = False,
    is_own: bool = False,
    approvers: Sequence[str] = (),
) -> StatusPanel | None:
    """None for a running job. `projects`: those whose names the reader may see, None for all;
    `may_replace`: whether the reader may replace the job by an alternative; `is_own`: whether it is
    the reader's, who may stop another one of theirs; `approvers`: who may approve it."""
    match JobStatus(job.status):
        case JobStatus.SUBMITTED | JobStatus.AWAITING_APPROVAL | JobStatus.QUEUED:
            panel = _waiting(job, visible_reason(job.reason, projects), may_replace)
            stops = [_stop(stored) for stored in job_offers(job).stops] if is_own else []
            return replace(panel, bound=bound_text(job, approvers), stops=stops)
        case JobStatus.PLACED | JobStatus.PREPARING:
            if attempt is not None and attempt.is_preflight and any(r.started_at for r in replicas):
                return _checking(replicas)
            return _starting(job, attempt, replicas)
        case JobStatus.STOPPING:
            return StatusPanel(
                "move", "stop", _("Stopping: its processes have their grace period to exit")
            )
        case JobStatus.SUCCEEDED:
            ran = elapsed(job.started_at, job.finished_at)
            return StatusPanel(
                "ok", "check", _("Succeeded"), _("It ran for %(ran)s") % {"ran": ran}
            )
        case JobStatus.CANCELLED if why := idle_end(job):
            advice = _("Clone it with idle_stop off if it must hold its GPUs while they wait")
            return StatusPanel("warn", "clock", _("Stopped while idle"), f"{why}. {advice}")
        case JobStatus.CANCELLED:
            return StatusPanel("wait", "stop", _("Cancelled"), _("It no longer uses any resources"))
        case JobStatus.TIMED_OUT:
            change = _("Clone it with a longer time limit, or resume it from a checkpoint")
            limit = StatusPanel("warn", "clock", _("Time limit reached"), change)
            return replace(limit, diagnosis=shown_diagnosis(job))
        case JobStatus.FAILED:
            return _diagnosed(_failed(attempt), shown_diagnosis(job))
        case _:
            return None


def _waiting(job: Job, reason: dict[str, Any] | None, may_replace: bool) -> StatusPanel:
    if not reason:
        title = _("Queued: the planner evaluates it in a moment")
        return StatusPanel(
            "wait", "clock", title, no_estimate=message_text(no_estimate_for_code(""))
        )
    cls, icon = REASON_STYLES[ReasonClass(reason["class"])]
    no_estimate = no_estimate_for_job(job)
    return StatusPanel(
        cls=cls,
        icon=icon,
        title=stored_text(reason),
        sentence=stored_text(reason, "unblocks"),
        code=reason["code"],
        evidence=unsaid_evidence(reason, stored_text(reason)),
        expected=expected_start(job),
        alternatives=[_alternative(job, stored) for stored in reason.get("alternatives", ())],
        may_replace=may_replace,
        no_estimate=message_text(no_estimate) if no_estimate else "",
    )


def _alternative(job: Job, stored: dict[str, Any]) -> PanelAlternative:
    changes = json.dumps(stored["changes"], sort_keys=True)
    query = urlencode({"like": job.label, "change": changes})
    return PanelAlternative(stored_text(stored), changes, f"{reverse('web:request')}?{query}")


def _stop(stored: Mapping[str, Any]) -> PanelStop:
    """What a job loses when it is stopped: what it has not saved itself."""
    label = f"J-{stored['job']}"
    started = datetime.fromtimestamp(stored["started_at"], UTC)
    ran = elapsed(started, None)
    loss = _("it has run for %(ran)s; what it has not saved is lost") % {"ran": ran}
    return PanelStop(label, stored["name"], loss, reverse("web:cancel", args=[label]))


def _checking(replicas: list[Replica]) -> StatusPanel:
    nodes = ", ".join(sorted({replica.location for replica in replicas}))
    sentence = _(
        "An all-reduce runs on its GPUs, for 5 minutes at most. The project pays for them; the "
        "time limit of the job begins when its own program starts"
    )
    return StatusPanel(
        "move", "bolt", _("Checking the network of %(nodes)s") % {"nodes": nodes}, sentence
    )


def _starting(job: Job, attempt: Attempt | None, replicas: list[Replica]) -> StatusPanel:
    nodes = ", ".join(sorted({replica.location for replica in replicas}))
    is_carving = any(
        allocation.own_slice.status != SliceStatus.READY
        for replica in replicas
        for allocation in replica.allocations.all()
    )
    if is_carving:
        sentence = _("Other slices keep running. This takes a few seconds")
        title = _("Its slices are being carved on %(nodes)s")
    else:
        sentence = _(
            "Its containers are being created. They start together once all of them are ready"
        )
        title = _("Preparing on %(nodes)s")
    pulls = _pulls(attempt_image(attempt) if attempt else job.image, replicas)
    if pulls:
        title = _("Its image is being pulled on %(nodes)s")
        sentence = _("You can cancel the job at any time, which ends the pull")
        nodes = ", ".join(pull.location for pull in pulls)
    return StatusPanel("move", "bolt", title % {"nodes": nodes}, sentence, pulls=pulls)


def _pulls(image: str, replicas: list[Replica]) -> list[PanelPull]:
    """One for each node: its replicas wait for the same pull."""
    found = {}
    for replica in replicas:
        if pull := replica_pull(replica, image):
            found[replica.location] = PanelPull(
                replica.location, message_text(pull.message), pull.percent
            )
    return [found[location] for location in sorted(found)]


def _diagnosed(panel: StatusPanel, diagnosis: ShownDiagnosis | None) -> StatusPanel:
    """The panel with what failed as its title, and what to do below it."""
    if diagnosis is None:
        return panel
    return replace(
        panel,
        title=diagnosis.headline,
        sentence=diagnosis.advice,
        code=panel.code or diagnosis.cause,
        diagnosis=diagnosis,
    )


def _failed(attempt: Attempt | None) -> StatusPanel:
    failure = (attempt.first_failure if attempt else None) or {}
    title = failure_text(failure) or _("The job failed")
    sentence = ""
    if failure.get("exit_code") is not None:
        memory_kill = failure.get("code") == "memory_kill"
        sentence = exit_meaning(failure["exit_code"], memory_kill=memory_kill)
        sentence += ". " + _("Rank %(rank)s failed first") % {"rank": failure["rank"]}
    elif failure.get("status") == "lost" or failure.get("code") in END_CAUSES:
        sentence = _("Not your code; it uses up no user retry")
    return StatusPanel("bad", "x", title, sentence, str(failure.get("code", "")))
