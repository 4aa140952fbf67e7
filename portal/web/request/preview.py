"""The preview panel of the request form: what would happen if the request were submitted now."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents.contract.moments import write_moment
from agents.contract.units import SECONDS_PER_HOUR, as_gpus
from portal.accounts.models import User
from portal.errors import Refused
from portal.planning.estimates import estimate_as_dict, no_estimate_for_code
from portal.quotas.limits import LimitEffect
from portal.submission.dry_run import DryRunResult, DryRunVerdict, PlannedDevice, dry_run
from portal.web.place_drawing import PlaceDrawing
from portal.web.request.form import FilledForm
from portal.web.request.launch_panel import LaunchPanel, launch_panel
from portal.web.request.place import request_place
from portal.web.wording.evidence import evidence_rows
from portal.web.wording.labels import duration, gigabytes, gpu_hours, share_label
from portal.web.wording.messages import message_text, refusal_text, stored_text
from portal.web.wording.reason_badges import REASON_STYLES
from portal.web.wording.start_estimates import start_from_estimate
from scheduler.core.model.reasons import ReasonClass
from scheduler.core.request.quantities import cpu_words, memory_words
from scheduler.core.request_fields import FIELDS

MAX_COMMAND_LABEL = 80
# Devices named one by one.
MAX_PLACES = 8
# By form field.
FIELD_LABELS = {field.form_name: gettext_lazy(field.label) for field in FIELDS} | {
    "amount": gettext_lazy("How much GPU memory?"),
    "threads": gettext_lazy("GPU threads of the share, in percent"),
    "share_memory": gettext_lazy("GPU memory of the share"),
}


@dataclass(frozen=True, slots=True)
class PreviewAlternative:
    """A changed request that would run or start."""

    label: str
    changes: str
    """The changed fields of the request, as JSON."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """A form field with an error."""

    name: str
    label: str
    error: str
    meant: str
    """What was probably meant; empty if nothing is known."""
    code: str = ""
    """Of the combination that is refused; empty for any other error."""


@dataclass(slots=True)
class PreviewPanel:
    """The panel beside the form."""

    cls: str
    """Its colour class."""
    icon: str
    title: str
    sentence: str
    verb: str
    """The text of the submit button."""
    figures: list[tuple[str, str, str]] = field(default_factory=list)
    """Label, value and unit."""
    places: list[str] = field(default_factory=list)
    """The devices that it would get."""
    drawing: PlaceDrawing | None = None
    """The same, drawn."""
    limits: list[tuple[str, bool]] = field(default_factory=list)
    """Each quota and budget after this job, and whether it is exceeded."""
    warnings: list[str] = field(default_factory=list)
    """What is allowed, but will probably fail."""
    code: str = ""
    """Of the reason."""
    evidence: list[tuple[str, str]] = field(default_factory=list)
    """Labels and values."""
    field_errors: list[FieldProblem] = field(default_factory=list)
    launch: LaunchPanel | None = None
    """What each replica would be started with."""
    alternatives_title: str = ""
    alternatives: list[PreviewAlternative] = field(default_factory=list)


def preview_request(user: User, form: FilledForm) -> PreviewPanel:
    """Changes nothing."""
    if form.request is None:
        return _incomplete(form)
    try:
        result = dry_run(user=user, request=form.request)
    except Refused as refused:
        return PreviewPanel(
            "bad", "x", _("The request is refused"), refusal_text(refused), _("Submit")
        )
    panel = _verdict_panel(result)
    is_never = result.verdict is DryRunVerdict.NEVER
    if not is_never:
        panel.figures = _figures(result)
    panel.limits = limit_lines(result)
    panel.warnings = [message_text(warning.message) for warning in result.warnings]
    panel.launch = launch_panel(result.launch())
    panel.alternatives_title = _("Could run here") if is_never else _("Would start now")
    panel.alternatives = [
        PreviewAlternative(message_text(each.message), json.dumps(each.changes, sort_keys=True))
        for each in result.alternatives
    ]
    return panel


def host_line(form: FilledForm) -> str:
    """What each replica gets of its node; empty while the form has errors."""
    if form.request is None:
        return ""
    words = {
        "cpu": cpus(form.request.cpu_milli),
        "memory": memory_words(form.request.memory_mib),
        "shm": memory_words(form.request.shm_mib),
    }
    if any(form.values[name].strip() for name in ("cpu", "memory", "shm")):
        text = _("Each replica gets %(cpu)s, %(memory)s of memory, %(shm)s of it shared.")
        return text % words
    text = _(
        "With it come %(cpu)s and %(memory)s of memory (%(shm)s of it shared): its share of the "
        "node. Change them under Advanced."
    )
    return text % words


def cpus(milli: int) -> str:
    """ "2 CPUs"."""
    number = cpu_words(milli)
    return ngettext("%(n)s CPU", "%(n)s CPUs", 1 if number == "1" else 2) % {"n": number}


def pending_preview(form: FilledForm) -> PreviewPanel:
    """The panel until the planner has answered."""
    if form.request is None:
        return _incomplete(form)
    sentence = _("The cluster is large: the preview follows in a moment")
    return PreviewPanel(
        "wait", "clock", _("The planner is checking the request"), sentence, _("Submit")
    )


def _verdict_panel(result: DryRunResult) -> PreviewPanel:
    reason = result.reason or {}
    match result.verdict:
        case DryRunVerdict.NEVER:
            return _reason_panel(reason, "bad", "x", _("Cannot run on this cluster"), _("Submit"))
        case DryRunVerdict.NOW:
            return _start_panel(result)
        case DryRunVerdict.SOON:
            title, verb = _("Can start in a moment"), _("Submit and start")
            return _reason_panel(reason, "ok", "check", title, verb)
        case DryRunVerdict.APPROVAL:
            reason = result.approval.as_dict() if result.approval else {}
            title, verb = _("An admin must approve it first"), _("Submit for approval")
        case DryRunVerdict.WAIT:
            title, verb = _wait_title(result), _("Submit and wait")
    cls, icon = REASON_STYLES[ReasonClass(reason["class"])]
    return _reason_panel(reason, cls, icon, title, verb)


def _wait_title(result: DryRunResult) -> str:
    if result.estimate is None:
        code = (result.reason or {}).get("code", "")
        why = message_text(no_estimate_for_code(code, result.begins_at))
        return _("Would wait; %(why)s") % {"why": why}
    start = start_from_estimate(estimate_as_dict(result.estimate))
    if start.cases:
        return _("Would wait; %(why)s") % {"why": _("starts %(when)s") % {"when": start.text}}
    if start.low == start.high:
        return _("Would wait, probably about %(about)s") % {"about": start.about}
    words = {"about": start.about, "low": start.low, "high": start.high}
    return _("Would wait, probably about %(about)s (%(low)s to %(high)s)") % words


def _incomplete(form: FilledForm) -> PreviewPanel:
    count = len(form.errors)
    sentence = ngettext("%(n)s field needs attention", "%(n)s fields need attention", count)
    problems = [
        FieldProblem(
            name,
            str(FIELD_LABELS.get(name, name)),
            error,
            form.mends.get(name, ""),
            form.combinations.get(name, ""),
        )
        for name, error in form.errors.items()
    ]
    return PreviewPanel(
        cls="warn",
        icon="alert",
        title=_("Incomplete"),
        sentence=sentence % {"n": count},
        verb=_("Submit"),
        field_errors=problems,
        alternatives_title=_("Would be accepted"),
        alternatives=[
            PreviewAlternative(_suggestion_label(each), json.dumps(each, sort_keys=True))
            for each in form.suggestions
        ],
    )


def _suggestion_label(changes: Mapping[str, Any]) -> str:
    """What the request would be with these changes."""
    if "device" in changes:
        return _("The same command on %(n)s whole GPUs") % {"n": changes["device"]["gpus"]}
    if "launcher" not in changes:
        changed = ", ".join(f"{name} {value}" for name, value in sorted(changes.items()))
        return _("The same request with %(changes)s") % {"changes": changed}
    words = {"launcher": changes["launcher"], "command": shlex.join(changes.get("command", ()))}
    if "command" not in changes:
        return _("The same command under launcher %(launcher)s") % words
    words["command"] = Truncator(words["command"]).chars(MAX_COMMAND_LABEL)
    return _("%(command)s under launcher %(launcher)s") % words


def _reason_panel(
    reason: Mapping[str, Any], cls: str, icon: str, title: str, verb: str
) -> PreviewPanel:
    """`reason`: as the user may see it."""
    sentence, unblocks = stored_text(reason), stored_text(reason, "unblocks")
    if unblocks:
        sentence = _("%(first)s. %(then)s") % {"first": sentence, "then": unblocks}
    panel = PreviewPanel(cls, icon, title, sentence, verb, code=reason["code"])
    panel.evidence = evidence_rows(dict(reason))
    return panel


def _start_panel(result: DryRunResult) -> PreviewPanel:
    if result.carves:
        sentence = _(
            "Its part of the GPU is made in a few seconds; what runs beside it keeps running"
        )
    else:
        sentence = _("Everything it needs is free and ready")
    if most := result.request.max_replicas:
        sizes = {"n": result.starting_replicas, "least": result.request.replicas, "most": most}
        words = {
            "first": _("It starts with %(n)s of %(least)s to %(most)s replicas") % sizes,
            "then": sentence,
        }
        sentence = _("%(first)s. %(then)s") % words
    names_profile = bool(result.request.device.mig)
    devices = result.devices[:MAX_PLACES]
    places = [f"{each.node}, GPU {each.gpu}{_device_part(each, names_profile)}" for each in devices]
    if more := len(result.devices) - len(devices):
        text = ngettext("and %(n)s more device", "and %(n)s more devices", more)
        places.append(text % {"n": f"{more:,}"})
    title, verb = _("Can start now"), _("Submit and start")
    panel = PreviewPanel("ok", "check", title, sentence, verb, places=places)
    panel.drawing = request_place(result.gpus)
    return panel


def _figures(result: DryRunResult) -> list[tuple[str, str, str]]:
    return [
        (_("Holds"), as_gpus(result.units), "GPU"),
        (_("For up to"), duration(result.request.time_limit_seconds), ""),
        (_("Uses at most"), gpu_hours(result.unit_seconds), _("GPU-hours")),
    ]


def _device_part(device: PlannedDevice, names_profile: bool) -> str:
    """The share or slice of the GPU; empty for a whole GPU. A profile is named to who chose it."""
    if device.threads:
        return f", {share_label(device.threads, memory_words(device.memory_mib))}"
    if not device.profile:
        return ""
    if names_profile:
        return f", {device.profile}"
    return ", " + _("a slice with %(size)s") % {"size": gigabytes(device.profile)}


def limit_lines(result: DryRunResult) -> list[tuple[str, bool]]:
    """Each quota and budget after this job, and whether it is exceeded; or that there is none."""
    project = result.request.project
    if not result.limits:
        text = _("%(project)s has no quota and no budget: its use is not limited")
        return [(text % {"project": project}, False)]
    return [(_limit_line(project, limit), limit.is_exceeded) for limit in result.limits]


def _limit_line(project: str, limit: LimitEffect) -> str:
    whose = _("project %(project)s") % {"project": project}
    if limit.user:
        whose = _("you in %(project)s") % {"project": project}
    if limit.is_budget:
        words = {
            "after": gpu_hours(limit.after),
            "limit": gpu_hours(limit.limit),
            "left": as_gpus(limit.remaining // SECONDS_PER_HOUR, round_up=False),
            "whose": whose,
            "until": write_moment(limit.ends_at or 0),
        }
        text = _(
            "At most %(after)s of %(limit)s GPU-hours used by %(whose)s after this; "
            "%(left)s left until %(until)s"
        )
        return text % words
    words = {
        "after": as_gpus(limit.after),
        "limit": as_gpus(limit.limit - limit.borrow),
        "gpus": f"{limit.model} GPU" if limit.model else "GPU",
        "whose": whose,
    }
    line = _("%(after)s of %(limit)s %(gpus)s held by %(whose)s after this") % words
    if limit.promised:
        words = {"line": line, "promised": as_gpus(limit.promised)}
        line = _("%(line)s, and %(promised)s kept for jobs ahead") % words
    if limit.borrow:
        words = {"line": line, "borrow": as_gpus(limit.borrow)}
        line = _("%(line)s; it may borrow %(borrow)s more") % words
    return line
