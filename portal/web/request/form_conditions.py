"""The folded part of the request form: what else each replica has, what becomes of a failure, when
it may start, where, and whether it makes way."""

import json
from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from portal.jobs.models import Job
from portal.submission.replacement import CHANGEABLE
from scheduler.core.model.states import JOB_WAITING, JobStatus
from scheduler.core.request import Launcher

# Empty: the request says nothing of it.
CONDITIONS = {"begin_at": "", "after": "", "needs": "", "tolerates": "", "preemptible": ""}
AMOUNTS = {"shm": "", "disk": "", "grace": "", "kind": "", "processes": ""}
RETRIES = {"infrastructure_retries": "infrastructure", "user_retries": "user"}
EXTRAS = CONDITIONS | AMOUNTS | dict.fromkeys(RETRIES, "")
LISTS = ("after", "needs", "tolerates")
YES_OR_NO = {"yes": True, "no": False}
MAX_CHANGES_LENGTH = 2_000


def split_words(text: str) -> list[str]:
    """Words between blanks or commas."""
    return text.replace(",", " ").split()


def parse_conditions(values: Mapping[str, str]) -> dict[str, Any]:
    """The request's fields, of the form's."""
    found: dict[str, Any] = {name: split_words(values[name]) for name in LISTS}
    found["begin_at"] = values["begin_at"].strip()
    body = {name: value for name, value in found.items() if value}
    if values["preemptible"]:
        body["preemptible"] = YES_OR_NO.get(values["preemptible"], values["preemptible"])
    return body


def parse_amounts(values: Mapping[str, str]) -> dict[str, Any]:
    """The request's fields, of the form's."""
    body: dict[str, Any] = {name: text for name in AMOUNTS if (text := values[name].strip())}
    if "processes" in body:
        body["processes"] = parse_number(body["processes"])
    retries = {
        word: parse_number(values[name]) for name, word in RETRIES.items() if values[name].strip()
    }
    return body | ({"retries": retries} if retries else {})


def parse_number(text: str) -> int | str:
    """A whole number where it is one; else as typed, for the one check to refuse."""
    return int(text) if text.strip().lstrip("-").isdecimal() and len(text) < 10 else text


def amount_values(asked: Mapping[str, Any], device: Mapping[str, Any]) -> dict[str, str]:
    """The form's fields, of a request for this device. A number of processes that nobody chose is
    left out, as it follows the GPUs."""
    filled = {name: str(asked[name]) for name in ("shm", "disk", "grace", "kind") if name in asked}
    retries = asked.get("retries", {})
    filled |= {name: str(retries[word]) for name, word in RETRIES.items() if word in retries}
    gpus = device.get("gpus", 0)
    usual = gpus if gpus and asked.get("launcher") == Launcher.TORCHRUN else 1
    if (processes := asked.get("processes", usual)) != usual:
        filled["processes"] = str(processes)
    return filled


def condition_values(asked: Mapping[str, Any]) -> dict[str, str]:
    """The form's fields, of a request, but for `start_condition_values`."""
    filled = {name: " ".join(asked.get(name, ())) for name in ("needs", "tolerates")}
    by_priority = asked["priority"] == "low"
    if (makes_way := asked.get("preemptible", by_priority)) != by_priority:
        filled["preemptible"] = "yes" if makes_way else "no"
    return filled


def start_condition_values(job: Job) -> dict[str, str]:
    """When and after what it was to begin. What is over by now is left out: a time that has passed,
    and other jobs to wait for once it waits no more."""
    filled = {}
    if job.begin_at and job.begin_at > timezone.now():
        filled["begin_at"] = job.begin_at.isoformat(timespec="seconds")
    if JobStatus(job.status) in JOB_WAITING:
        filled["after"] = " ".join(job.request.get("after", ()))
    return filled


def parse_changes(text: str) -> dict[str, Any]:
    """The changes of a request that an address or a button asks for; nothing where they make no
    sense."""
    try:
        changes = json.loads(text) if 0 < len(text) <= MAX_CHANGES_LENGTH else {}
    except ValueError:
        return {}
    if not isinstance(changes, dict) or not changes.keys() <= CHANGEABLE:
        return {}
    device = changes.get("device", {})
    share = device.get("mps", {}) if isinstance(device, dict) else None
    lists = (changes.get("needs", []), device.get("models", []) if isinstance(device, dict) else [])
    is_sane = (
        isinstance(share, dict)
        and (not share or {"threads", "memory"} <= share.keys())
        and all(isinstance(each, list) and all(isinstance(w, str) for w in each) for each in lists)
    )
    return changes if is_sane else {}
