"""The advanced fields of the request form: resources of a replica, retries, when and where the job
may start, and whether it may be preempted."""

import json
from collections.abc import Mapping, Set
from typing import Any

from django.utils import timezone

from agents.contract.documents import LauncherName
from agents.launchers.registry import LAUNCHERS
from portal.jobs.models import Job
from portal.submission.replacement import CHANGEABLE
from scheduler.core.model.states import JOB_WAITING, JobStatus

# An empty field is left out of the request.
CONDITIONS = {"begin_at": "", "after": "", "needs": "", "tolerates": "", "preemptible": ""}
AMOUNTS = {"shm": "", "disk": "", "grace": "", "kind": "", "processes": ""}
RETRIES = {"infrastructure_retries": "infrastructure", "user_retries": "user"}
EXTRAS = CONDITIONS | AMOUNTS | dict.fromkeys(RETRIES, "")
LISTS = ("after", "needs", "tolerates")
YES_OR_NO = {"yes": True, "no": False}
# What the suggestion of a refusal may change too: in the form, never of a submitted job.
MENDABLE = CHANGEABLE | {"command", "launcher", "processes"}
MAX_CHANGES_LENGTH = 65_536


def split_words(text: str) -> list[str]:
    """Words separated by blanks or commas."""
    return text.replace(",", " ").split()


def parse_conditions(values: Mapping[str, str]) -> dict[str, Any]:
    """Fields of the request, from values of the form."""
    fields: dict[str, Any] = {name: split_words(values[name]) for name in LISTS}
    fields["begin_at"] = values["begin_at"].strip()
    body = {name: value for name, value in fields.items() if value}
    if values["preemptible"]:
        body["preemptible"] = YES_OR_NO.get(values["preemptible"], values["preemptible"])
    return body


def parse_amounts(values: Mapping[str, str]) -> dict[str, Any]:
    """Fields of the request, from values of the form."""
    body: dict[str, Any] = {name: text for name in AMOUNTS if (text := values[name].strip())}
    if "processes" in body:
        body["processes"] = parse_number(body["processes"])
    retries = {
        kind: parse_number(values[name]) for name, kind in RETRIES.items() if values[name].strip()
    }
    return body | ({"retries": retries} if retries else {})


def parse_number(text: str) -> int | str:
    """An integer, or the text as typed for `parse_request` to refuse."""
    return int(text) if text.strip().lstrip("-").isdecimal() and len(text) < 10 else text


def amount_values(fields: Mapping[str, Any], device: Mapping[str, Any]) -> dict[str, str]:
    """Values of the form, from a request for this device. The default number of processes is left
    out, because it follows the GPUs."""
    plain = ("shm", "disk", "grace", "kind")
    filled = {name: str(fields[name]) for name in plain if name in fields}
    retries = fields.get("retries", {})
    filled |= {name: str(retries[kind]) for name, kind in RETRIES.items() if kind in retries}
    launcher = LAUNCHERS[LauncherName(fields.get("launcher", LauncherName.NONE))]
    default = launcher.default_processes(device.get("gpus", 0))
    if (processes := fields.get("processes", default)) != default:
        filled["processes"] = str(processes)
    return filled


def condition_values(fields: Mapping[str, Any]) -> dict[str, str]:
    """Values of the form, from a request, except those of `start_condition_values`."""
    filled = {name: " ".join(fields.get(name, ())) for name in ("needs", "tolerates")}
    by_priority = fields["priority"] == "low"
    if (is_preemptible := fields.get("preemptible", by_priority)) != by_priority:
        filled["preemptible"] = "yes" if is_preemptible else "no"
    return filled


def start_condition_values(job: Job) -> dict[str, str]:
    """The begin time and dependencies that still apply: no begin time in the past, and no
    dependencies once the job has stopped waiting."""
    filled = {}
    if job.begin_at and job.begin_at > timezone.now():
        filled["begin_at"] = job.begin_at.isoformat(timespec="seconds")
    if JobStatus(job.status) in JOB_WAITING:
        filled["after"] = " ".join(job.request.get("after", ()))
    return filled


def parse_changes(text: str, allowed: Set[str] = CHANGEABLE) -> dict[str, Any]:
    """The changed fields of a request, from the JSON of an address or a button. Invalid JSON gives
    no changes."""
    try:
        changes = json.loads(text) if 0 < len(text) <= MAX_CHANGES_LENGTH else {}
    except ValueError:
        return {}
    if not isinstance(changes, dict) or not changes.keys() <= allowed:
        return {}
    device = changes.get("device", {})
    share = device.get("mps", {}) if isinstance(device, dict) else None
    models = device.get("models", []) if isinstance(device, dict) else []
    lists = (changes.get("needs", []), changes.get("command", []), models)
    is_valid = (
        isinstance(share, dict)
        and (not share or {"threads", "memory"} <= share.keys())
        and all(isinstance(each, list) and all(isinstance(w, str) for w in each) for each in lists)
    )
    return changes if is_valid else {}
