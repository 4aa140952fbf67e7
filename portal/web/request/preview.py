"""The request's answer before anyone submits it, in words: what `foresight` found."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents.contract.units import SECONDS_PER_HOUR, as_gpus
from portal.accounts.models import User
from portal.errors import Refused
from portal.planning.estimates import estimate_as_dict, no_estimate_for_code
from portal.quotas.limits import LimitEffect
from portal.submission.dry_run import DryRunResult, DryRunVerdict, PlannedDevice, dry_run
from portal.web.job.status_panel import REASON_STYLES
from portal.web.request.form import FilledForm
from portal.web.templatetags.console import gpu_hours
from portal.web.wording.evidence import evidence_rows
from portal.web.wording.labels import duration, memory_label, share_label
from portal.web.wording.messages import message_text, refusal_text, stored_text
from portal.web.wording.start_estimates import start_from_estimate
from scheduler.core.model.reasons import ReasonClass

# What the form calls its fields.
FIELD_LABELS = {
    "name": gettext_lazy("Name"),
    "project": gettext_lazy("Project"),
    "image": gettext_lazy("Image"),
    "command": gettext_lazy("Command"),
    "amount": gettext_lazy("How much GPU memory?"),
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


# In words, and the fields of the request that it changes, as JSON.
Offer = tuple[str, str]


@dataclass(slots=True)
class PreviewPanel:
    """The panel beside the form. `figures`: name, value, unit. `verb` is what the button says.
    `limits`: what each limit has left after it, and whether it is over. `wrong`: a field's label
    and what is wrong with it. `instead`: other requests, under a title."""

    cls: str
    icon: str
    title: str
    sentence: str
    verb: str
    figures: list[tuple[str, str, str]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    limits: list[tuple[str, bool]] = field(default_factory=list)
    code: str = ""
    evidence: list[tuple[str, str]] = field(default_factory=list)
    field_errors: list[tuple[str, str]] = field(default_factory=list)
    alternatives: tuple[str, list[Offer]] = ("", [])


def preview_request(user: User, asked: FilledForm) -> PreviewPanel:
    """What would happen if the form were submitted now. Changes nothing."""
    if asked.request is None:
        return _incomplete(asked.errors)
    try:
        found = dry_run(user=user, request=asked.request)
    except Refused as refused:
        return PreviewPanel("bad", "x", _("This is refused"), refusal_text(refused), _("Request"))
    answer = _told(found)
    if found.verdict is not DryRunVerdict.NEVER:
        answer.figures = _figures(found)
    answer.limits = limit_lines(found)
    title = _("Could run here") if found.verdict is DryRunVerdict.NEVER else _("Would start now")
    offers = [
        (message_text(one.said), json.dumps(one.changes, sort_keys=True))
        for one in found.alternatives
    ]
    answer.alternatives = title, offers
    return answer


def pending_preview(asked: FilledForm) -> PreviewPanel:
    """What stands there until the planner was asked."""
    if asked.request is None:
        return _incomplete(asked.errors)
    sentence = _("The cluster is large: its answer is here in a moment")
    return PreviewPanel("wait", "clock", _("The planner looks at it"), sentence, _("Request"))


def _told(found: DryRunResult) -> PreviewPanel:
    reason = found.reason or {}
    match found.verdict:
        case DryRunVerdict.NEVER:
            return _because(reason, "bad", "x", _("This can never run here"), _("Request"))
        case DryRunVerdict.NOW:
            return _placed(found)
        case DryRunVerdict.SOON:
            title, verb = _("Can start in a moment"), _("Request and start")
            return _because(reason, "ok", "check", title, verb)
        case DryRunVerdict.APPROVAL:
            reason = found.approval.as_dict() if found.approval else {}
            title, verb = _("An admin would have to approve it first"), _("Request and ask")
        case DryRunVerdict.WAIT:
            title, verb = _would_wait(found), _("Request and wait")
    cls, icon = REASON_STYLES[ReasonClass(reason["class"])]
    return _because(reason, cls, icon, title, verb)


def _would_wait(found: DryRunResult) -> str:
    if found.estimate is None:
        begin_at = found.begins_at
        code = (found.reason or {}).get("code", "")
        return _("Would wait; %(why)s") % {
            "why": message_text(no_estimate_for_code(code, begin_at))
        }
    wait = start_from_estimate(estimate_as_dict(found.estimate))
    if wait.low == wait.high:
        return _("Would wait, probably about %(about)s") % {"about": wait.about}
    words = {"about": wait.about, "low": wait.low, "high": wait.high}
    return _("Would wait, probably about %(about)s (%(low)s to %(high)s)") % words


def _incomplete(errors: dict[str, str]) -> PreviewPanel:
    count = len(errors)
    sentence = ngettext("%(n)s field needs another look", "%(n)s fields need another look", count)
    wrong = [(str(FIELD_LABELS.get(name, name)), said) for name, said in errors.items()]
    title, verb = _("Not complete yet"), _("Request")
    return PreviewPanel("warn", "alert", title, sentence % {"n": count}, verb, field_errors=wrong)


def _because(said: Mapping[str, Any], cls: str, icon: str, title: str, verb: str) -> PreviewPanel:
    """With a reason as the user may read it."""
    sentence, helps = stored_text(said), stored_text(said, "unblocks")
    if helps:
        sentence = _("%(first)s. %(then)s") % {"first": sentence, "then": helps}
    answer = PreviewPanel(cls, icon, title, sentence, verb, code=said["code"])
    answer.evidence = evidence_rows(dict(said))
    return answer


def _placed(found: DryRunResult) -> PreviewPanel:
    if found.carves:
        sentence = _("Its slices are carved in seconds; what runs beside them goes on")
    else:
        sentence = _("What it needs is free and ready")
    places = [f"{one.node}, GPU {one.gpu}{_part(one)}" for one in found.devices]
    title, verb = _("Can start now"), _("Request and start")
    return PreviewPanel("ok", "check", title, sentence, verb, places=places)


def _figures(found: DryRunResult) -> list[tuple[str, str, str]]:
    return [
        (_("Holds"), as_gpus(found.units), "GPU"),
        (_("For at most"), duration(found.request.time_limit_seconds), ""),
        (_("Uses at most"), gpu_hours(found.unit_seconds), _("GPU-hours")),
    ]


def _part(device: PlannedDevice) -> str:
    """Which part of its GPU; nothing of a whole one."""
    if device.threads:
        return f", {share_label(device.threads, memory_label(device.memory_mib))}"
    return f", {device.profile}" if device.profile else ""


def limit_lines(found: DryRunResult) -> list[tuple[str, bool]]:
    """What each quota and budget has used after it; that there is none is told, too."""
    if not found.limits:
        said = _("%(project)s has no quota and no budget: nothing limits it")
        return [(said % {"project": found.request.project}, False)]
    return [(_limit(found.request.project, one), one.is_exceeded) for one in found.limits]


def _limit(project: str, one: LimitEffect) -> str:
    whose = _("project %(project)s") % {"project": project}
    if one.user:
        whose = _("you in %(project)s") % {"project": project}
    if one.is_budget:
        ends = timezone.localtime(datetime.fromtimestamp(one.ends_at or 0, UTC))
        words = {
            "after": gpu_hours(one.after),
            "limit": gpu_hours(one.limit),
            "left": as_gpus(one.remaining // SECONDS_PER_HOUR, round_up=False),
            "whose": whose,
            "until": ends.strftime("%Y-%m-%d"),
        }
        return (
            _(
                "At most %(after)s of %(limit)s GPU-hours used by %(whose)s after this; "
                "%(left)s left until %(until)s"
            )
            % words
        )
    gpus = f"{one.model} GPU" if one.model else "GPU"
    words = {"after": as_gpus(one.after), "limit": as_gpus(one.limit), "gpus": gpus, "whose": whose}
    return _("%(after)s of %(limit)s %(gpus)s used by %(whose)s after this") % words
