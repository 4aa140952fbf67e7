"""The request's answer before anyone submits it: the planner's own, on the rows of now."""

from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.units import as_gpus
from portal.accounts.models import User
from portal.errors import Refused
from portal.jobs.services import job_check
from portal.jobs.snapshot import as_waiting, cluster_snapshot, queue
from portal.web.panel import LOOK, evidence_of
from portal.web.request_form import Asked
from portal.web.words import duration
from scheduler.core.plan import plan
from scheduler.core.reasons import Reason, ReasonCode
from scheduler.core.request import JobRequest
from scheduler.core.values import ClusterSnapshot, Policy

# No stored job has this id.
ASKED = "0"


@dataclass(slots=True)
class Answer:
    """The panel beside the form. `figures`: name, value, unit. `verb` is what the button says."""

    cls: str
    icon: str
    title: str
    sentence: str
    verb: str
    figures: list[tuple[str, str, str]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    code: str = ""
    evidence: list[tuple[str, str]] = field(default_factory=list)


def answer_to(user: User, asked: Asked) -> Answer:
    """What would happen if the form were submitted now. Changes nothing."""
    request = asked.request
    if request is None:
        return _incomplete(len(asked.errors))
    try:
        never = job_check(user=user, request=request)
    except Refused as refused:
        return Answer("bad", "x", _("This is refused"), refused.sentence, _("Request"))
    if never:
        return _because(never, "bad", "x", _("This can never run here"))
    snapshot = cluster_snapshot(now=timezone.now(), jobs=queue())
    decided = plan(_with(snapshot, request, user), Policy())
    for place in decided.places:
        if place.job == ASKED:
            return _placed(place, snapshot, request)
    reason = next(hold.reason for hold in decided.holds if hold.job == ASKED)
    if reason.code is ReasonCode.REPARTITION:
        return _because(reason, "ok", "check", _("Can start in a moment"), _("Request and start"))
    cls, icon = LOOK[reason.cls]
    return _because(reason, cls, icon, _("Would wait"), _("Request and wait"))


def _incomplete(count: int) -> Answer:
    fields = ngettext("%(n)s field needs", "%(n)s fields need", count) % {"n": count}
    sentence = _("%(fields)s another look, marked in the form") % {"fields": fields}
    return Answer("warn", "alert", _("Not complete yet"), sentence, _("Request"))


def _with(snapshot: ClusterSnapshot, request: JobRequest, user: User) -> ClusterSnapshot:
    """The snapshot with this request as the last of the queue."""
    waiting = as_waiting(
        request,
        id=ASKED,
        project=request.project,
        user=user.username,
        queued_at=snapshot.now,
    )
    jobs = (*snapshot.jobs, waiting)
    return ClusterSnapshot(snapshot.now, snapshot.nodes, jobs, snapshot.quotas)


def _because(reason: Reason, cls: str, icon: str, title: str, verb: str = "") -> Answer:
    said = reason.as_dict()
    sentence = f"{reason.sentence}. {reason.unblocks}" if reason.unblocks else reason.sentence
    return Answer(
        cls,
        icon,
        title,
        sentence,
        verb or _("Request"),
        code=said["code"],
        evidence=evidence_of(said),
    )


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
        f"{nodes[replica.node]}, GPU {indexes[device.gpu]}"
        + (f", {device.profile}" if device.profile else "")
        for replica in place.replicas
        for device in replica.devices
    ]
    title, verb = _("Can start now"), _("Request and start")
    return Answer("ok", "check", title, sentence, verb, figures, places)
