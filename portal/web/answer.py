"""The request's answer before anyone submits it: the planner's own, on the rows of now."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents.contract.units import as_gpus
from portal.accounts.models import User
from portal.errors import Refused
from portal.jobs.estimates import as_dict, no_estimate, questions
from portal.jobs.reasons import projects_of, reason_for
from portal.jobs.services import job_check
from portal.jobs.snapshot import as_waiting, cluster_snapshot, queue
from portal.quotas.policy import policy_now
from portal.web.evidence import evidence_of
from portal.web.expected import expected
from portal.web.instead import Offer, runnable, startable
from portal.web.panel import LOOK
from portal.web.request_form import Asked
from portal.web.telling import here, told, told_refusal
from portal.web.words import duration, memory, share
from scheduler.core.decisions import SlicePlace
from scheduler.core.forecast.of_pass import Foretold, starts_of
from scheduler.core.forecast.outlook import Outlook
from scheduler.core.plan import plan_with_questions
from scheduler.core.reasons import Reason, ReasonCode
from scheduler.core.request import JobRequest
from scheduler.core.values import ClusterSnapshot, WaitingJob

# No stored job has this id.
ASKED = "0"
# What the form calls its fields.
LABELS = {
    "name": gettext_lazy("Name"),
    "project": gettext_lazy("Project"),
    "image": gettext_lazy("Image"),
    "command": gettext_lazy("Command"),
    "amount": gettext_lazy("How much GPU?"),
    "replicas": gettext_lazy("Replicas"),
    "gpus": gettext_lazy("Whole GPUs for each"),
    "threads": gettext_lazy("Threads of a share, in percent"),
    "share_memory": gettext_lazy("GPU memory of a share"),
    "time_limit": gettext_lazy("Time limit"),
    "cpu": gettext_lazy("CPU for each replica"),
    "memory": gettext_lazy("Memory for each replica"),
    "disk": gettext_lazy("Disk for each replica"),
    "shm": gettext_lazy("Shared memory for each replica"),
    "processes": gettext_lazy("Processes in each replica"),
    "grace": gettext_lazy("Grace to end in"),
    "infrastructure_retries": gettext_lazy("Retries when a node fails"),
    "user_retries": gettext_lazy("Retries when the command fails"),
    "kind": gettext_lazy("Kind"),
    "topology": gettext_lazy("Topology"),
    "launcher": gettext_lazy("Launcher"),
    "backend": gettext_lazy("Backend"),
    "priority": gettext_lazy("Priority"),
    "env": gettext_lazy("Environment"),
    "device_memory": gettext_lazy("GPU memory, at least"),
    "isolation": gettext_lazy("Served by"),
    "models": gettext_lazy("Models of GPU"),
    "begin_at": gettext_lazy("Begin at"),
    "after": gettext_lazy("After these jobs"),
    "needs": gettext_lazy("Labels that its nodes have"),
    "tolerates": gettext_lazy("Taints that its nodes may have"),
    "preemptible": gettext_lazy("May be stopped for others"),
}


@dataclass(slots=True)
class Answer:
    """The panel beside the form. `figures`: name, value, unit. `verb` is what the button says.
    `wrong`: a field's label and what is wrong with it. `instead`: other requests, under a title."""

    cls: str
    icon: str
    title: str
    sentence: str
    verb: str
    figures: list[tuple[str, str, str]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    code: str = ""
    evidence: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    instead: tuple[str, list[Offer]] = ("", [])


def answer_to(user: User, asked: Asked) -> Answer:
    """What would happen if the form were submitted now. Changes nothing."""
    request = asked.request
    if request is None:
        return _incomplete(asked.errors)
    try:
        judged = job_check(user=user, request=request)
    except Refused as refused:
        return Answer("bad", "x", _("This is refused"), told_refusal(refused), _("Request"))
    now = timezone.now()
    if judged.never:
        reason = reason_for(judged.never.as_dict(), projects_of(user)) or {}
        answer = _because(reason, "bad", "x", _("This can never run here"))
        snapshot = _with(cluster_snapshot(now=now), request, user)
        answer.instead = _("Could run here"), runnable(snapshot.jobs[-1], snapshot)
        return answer
    if judged.approval:
        cls, icon = LOOK[judged.approval.cls]
        title, verb = _("An admin would have to approve it first"), _("Request and ask")
        return _because(judged.approval.as_dict(), cls, icon, title, verb)
    policy = policy_now()
    snapshot = _with(cluster_snapshot(now=now, jobs=queue()), request, user)
    outlook = Outlook.of(snapshot)
    decided, can_start = plan_with_questions(snapshot, policy, outlook)
    for place in decided.places:
        if place.job == ASKED:
            return _placed(place, snapshot, request)
    why = next(hold.reason for hold in decided.holds if hold.job == ASKED)
    reason = reason_for(why.as_dict(), projects_of(user)) or {}
    if why.code is ReasonCode.REPARTITION:
        return _because(reason, "ok", "check", _("Can start in a moment"), _("Request and start"))
    cls, icon = LOOK[why.cls]
    wanted = snapshot.jobs[-1]
    instead = startable(wanted, why.code, snapshot, can_start)
    start = starts_of(snapshot, policy, outlook, decided, questions(now)).get(ASKED)
    answer = _because(reason, cls, icon, _would_wait(start, why, wanted), _("Request and wait"))
    answer.instead = _("Would start now"), instead
    return answer


def _would_wait(start: Foretold | None, why: Reason, wanted: WaitingJob) -> str:
    if start is None or not start.is_told:
        begin_at = datetime.fromtimestamp(wanted.begin_at, UTC) if wanted.begin_at else None
        return _("Would wait; %(why)s") % {"why": here(no_estimate(why.code, begin_at))}
    wait = expected(as_dict(start))
    if wait.low == wait.high:
        return _("Would wait, probably about %(about)s") % {"about": wait.about}
    words = {"about": wait.about, "low": wait.low, "high": wait.high}
    return _("Would wait, probably about %(about)s (%(low)s to %(high)s)") % words


def _incomplete(errors: dict[str, str]) -> Answer:
    count = len(errors)
    sentence = ngettext("%(n)s field needs another look", "%(n)s fields need another look", count)
    wrong = [(str(LABELS.get(name, name)), said) for name, said in errors.items()]
    title, verb = _("Not complete yet"), _("Request")
    return Answer("warn", "alert", title, sentence % {"n": count}, verb, wrong=wrong)


def _with(snapshot: ClusterSnapshot, request: JobRequest, user: User) -> ClusterSnapshot:
    """The snapshot with this request as the last of the queue."""
    waiting = as_waiting(
        request,
        id=ASKED,
        project=request.project,
        user=user.username,
        queued_at=snapshot.now,
    )
    return replace(snapshot, jobs=(*snapshot.jobs, waiting))


def _because(said: dict[str, Any], cls: str, icon: str, title: str, verb: str = "") -> Answer:
    """With a reason as the user may read it."""
    sentence, helps = told(said), told(said, "unblocks")
    if helps:
        sentence = _("%(first)s. %(then)s") % {"first": sentence, "then": helps}
    return Answer(
        cls,
        icon,
        title,
        sentence,
        verb or _("Request"),
        code=said["code"],
        evidence=evidence_of(said),
    )


def _part(device: SlicePlace) -> str:
    """Which part of its GPU; nothing of a whole one."""
    if device.threads:
        return f", {share(device.threads, memory(device.memory_mib))}"
    return f", {device.profile}" if device.profile else ""


def _placed(place: Any, snapshot: ClusterSnapshot, request: JobRequest) -> Answer:
    devices = [device for replica in place.replicas for device in replica.devices]
    carves = any(device.profile and not device.slice for device in devices)
    if carves:
        sentence = _("Its slices are carved in seconds; what runs beside them goes on")
    else:
        sentence = _("What it needs is free and ready")
    units = sum(device.units for device in devices)
    # Unit-seconds at most; 1,000 units times hours keep two decimals of a GPU-hour.
    at_most = -(-units * request.time_limit_seconds // 3600)
    figures = [
        (_("Holds"), as_gpus(units), "GPU"),
        (_("For at most"), duration(request.time_limit_seconds), ""),
        (_("Uses at most"), as_gpus(at_most), _("GPU-hours")),
    ]
    nodes = {node.id: node.name for node in snapshot.nodes}
    indexes = {gpu.id: gpu.index for node in snapshot.nodes for gpu in node.gpus}
    places = [
        f"{nodes[replica.node]}, GPU {indexes[device.gpu]}{_part(device)}"
        for replica in place.replicas
        for device in replica.devices
    ]
    title, verb = _("Can start now"), _("Request and start")
    return Answer("ok", "check", title, sentence, verb, figures, places)
