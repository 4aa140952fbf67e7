"""Fields of the table as values of the request form, and back. The device is in `form`."""

import json
import shlex
from collections.abc import Mapping, Set
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from portal.jobs.models import Job
from portal.submission.replacement import CHANGEABLE
from portal.web.wording.messages import message_text
from scheduler.core.model.states import JOB_WAITING, JobStatus
from scheduler.core.request.typed_text import READERS, read_typed
from scheduler.core.request_fields import (
    FIELDS,
    DefaultRule,
    FieldKind,
    RequestField,
    count_range_words,
    read_count_range,
    volume_words,
)

AMOUNT_KINDS = frozenset(READERS)
YES_OR_NO = {"yes": True, "no": False}
# Read from the job's row: see `start_condition_values`.
START_CONDITIONS = frozenset({"begin_at", "after"})
MAX_CHANGES_LENGTH = 65_536
# What the suggestion of a refusal may change too: in the form, never of a submitted job.
MENDABLE = CHANGEABLE | {"command", "launcher", "processes"}
# What an address may change of a job that is asked for again, such as the remedy of a failed one.
PREFILLABLE = MENDABLE | {"memory", "shm", "disk", "profiler"}
# What an address may fill in of a new request, such as that of an advice.
FILLABLE = PREFILLABLE | {"name", "image"}


def split_words(text: str) -> list[str]:
    """Words separated by blanks or commas."""
    return text.replace(",", " ").split()


def parse_number(text: str) -> int | str:
    """An integer, or the text as typed for `parse_request` to refuse."""
    is_short = text.strip().removeprefix("-").isdecimal() and len(text) < 10
    return int(text) if is_short else text


def parse_fields(
    values: Mapping[str, str], errors: dict[str, str], readings: dict[str, str]
) -> dict[str, Any]:
    """The body of a request, without its device. Empty values are left out. `readings`: how texts
    that leave something open were read, by form field."""
    body: dict[str, Any] = {}
    for field in FIELDS:
        text = values[field.form_name].strip()
        if field.top == "device" or not (text or field.is_required):
            continue
        field.write_to(body, _parsed(field, text, errors, readings))
    return body


def read_amount(
    form_name: str, kind: FieldKind, text: str, readings: dict[str, str], now: datetime
) -> str:
    """The typed text as a request writes it, and how it was read among the `readings`."""
    typed = read_typed(kind, text, now)
    if typed.reading:
        readings[form_name] = _("Read as %(what)s.") % {"what": message_text(typed.reading)}
    return typed.written


def _parsed(
    field: RequestField, text: str, errors: dict[str, str], readings: dict[str, str]
) -> Any:
    if field.kind in AMOUNT_KINDS:
        return read_amount(field.form_name, field.kind, text, readings, timezone.localtime())
    match field.kind:
        case FieldKind.COUNT:
            return parse_number(text)
        case FieldKind.COUNT_RANGE:
            return read_count_range(text)
        case FieldKind.WORDS:
            return text.split() if field.has_commas_in_words else split_words(text)
        case FieldKind.YES_NO:
            return YES_OR_NO.get(text, text)
        case FieldKind.COMMAND:
            return _command(text, errors)
        case FieldKind.VARIABLES:
            return _env(text, errors)
        case FieldKind.VOLUMES:
            return [line.strip() for line in text.splitlines() if line.strip()]
    return text


def field_values(fields: Mapping[str, Any]) -> dict[str, str]:
    """Values of the form, from a request: the fields that it has, without its device and
    START_CONDITIONS."""
    values: dict[str, str] = {}
    for field in FIELDS:
        value = field.value_in(fields)
        if field.top == "device" or field.name in START_CONDITIONS or value is None:
            continue
        values[field.form_name] = _written(field, value, fields)
    return values


def _written(field: RequestField, value: Any, fields: Mapping[str, Any]) -> str:
    match field.kind:
        case FieldKind.COUNT_RANGE:
            return count_range_words(value)
        case FieldKind.WORDS:
            return " ".join(value)
        case FieldKind.YES_NO:
            is_low = fields.get("priority") == "low"
            default = is_low if field.default is DefaultRule.PRIORITY else field.default
            return "" if value == default else "yes" if value else "no"
        case FieldKind.COMMAND:
            return shlex.join(value)
        case FieldKind.VOLUMES:
            return "\n".join(map(volume_words, value))
        case FieldKind.VARIABLES:
            return "\n".join(f"{name}={text}" for name, text in value.items())
    return str(value)


def _command(text: str, errors: dict[str, str]) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        errors["command"] = _("a quotation mark is not closed")
        return ["?"]


def _env(text: str, errors: dict[str, str]) -> dict[str, str]:
    env = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals:
            errors["env"] = _("write one NAME=value per line")
        env[name.strip()] = value
    return env


def start_condition_values(job: Job) -> dict[str, str]:
    """The begin time and dependencies that still apply: no begin time in the past, and no
    dependencies once the job has stopped waiting."""
    filled = {}
    if job.begin_at and job.begin_at > timezone.now():
        filled["begin_at"] = timezone.localtime(job.begin_at).isoformat(timespec="seconds")
    if JobStatus(job.status) in JOB_WAITING:
        filled["after"] = " ".join(job.request.get("after", ()))
    return filled


def parse_changes(text: str, allowed: Set[str] = CHANGEABLE) -> dict[str, Any]:
    """The changed fields of a request, from the JSON of an address or a button. Invalid JSON gives
    no changes."""
    try:
        changes = json.loads(text) if 0 < len(text) <= MAX_CHANGES_LENGTH else {}
    except (ValueError, RecursionError):
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
