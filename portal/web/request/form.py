"""The request form: its default values, and the job request that its values describe.

Only `scheduler.core.request` validates a request; the form maps its errors to fields.
"""

import json
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.jobs.models import Job
from portal.jobs.selectors import readable_request
from portal.submission.limits import chosen_fields
from portal.web.request.form_fields import (
    field_values,
    parse_fields,
    parse_number,
    read_amount,
    split_words,
    start_condition_values,
)
from portal.web.request.volumes import volumes_text
from portal.web.wording.messages import message_text
from scheduler.core.request import (
    InvalidRequest,
    JobRequest,
    RequestLimits,
    parse_request,
    request_as_dict,
)
from scheduler.core.request.choices import choices_of
from scheduler.core.request.values import FieldError
from scheduler.core.request_fields import BY_NAME, FIELDS, FieldKind, count_range_words

# Values of the field `amount` that are not a MIG profile. Whole GPUs of one model are "gpus:H200",
# a card of an amount of GPU memory is "memory:16GiB".
WHOLE_GPUS, MPS_SHARE, BY_MEMORY = "gpus", "mps", "memory"
MAX_TEXT = 65_536
# Runs in every runtime and image, and prints the device it was given.
EXAMPLE_COMMAND = ("sh", "-c", 'echo "Hello from $TESSERA_DEVICES"; sleep 20; echo done')
# What a fresh form starts with. An empty field is left out of the request and gets its default.
STARTS = {
    "name": "hello",
    "image": "tessera-example:latest",
    "command": shlex.join(EXAMPLE_COMMAND),
    "gpus": "1",
    "threads": "25",
    "share_memory": "8 GB",
    "device_memory": "24 GB",
    "replicas": "1",
}
# A list has no empty choice, except where its default depends on another field.
CHOSEN = {field.form_name: str(field.default) for field in FIELDS if choices_of(field)}
# From top to bottom, as far as fields stand above the advanced part.
PAGE_ORDER = (
    *("name", "project", "image", "command", "code", "amount", "device_memory", "isolation"),
    *("models", "threads", "share_memory", "replicas", "gpus", "time_limit"),
)
# Beside the list of `code`, for a git source.
REPOSITORY_FIELD = "code_repository"
DEFAULTS = {field.form_name: "" for field in FIELDS} | CHOSEN | STARTS


@dataclass(slots=True)
class FilledForm:
    """The values of a form, and what they were parsed to."""

    values: dict[str, str]
    """As typed, by form field."""
    request: JobRequest | None = None
    """None if there are errors."""
    errors: dict[str, str] = field(default_factory=dict)
    """By form field."""
    suggestions: list[dict[str, Any]] = field(default_factory=list)
    """Each corrects an error: fields of the request with new values."""
    mends: dict[str, str] = field(default_factory=dict)
    """What was probably meant in a field with an error, by form field."""
    combinations: dict[str, str] = field(default_factory=dict)
    """The code of the combination that is refused in a field, by form field."""
    readings: dict[str, str] = field(default_factory=dict)
    """How a text that leaves something open was read, in a sentence, by form field."""

    def add_error(self, path: str, sentence: str) -> None:
        """Record an error in a field of the request, given by its path."""
        self.errors.setdefault(_form_field(path, self.values["amount"]), sentence)

    def add_refusal(self, error: FieldError) -> None:
        """An error of the check, and what mends it."""
        self.add_error(error.field, message_text(error.message))
        name = _form_field(error.field, self.values["amount"])
        if error.combination:
            self.combinations.setdefault(name, error.combination)
        if not error.suggestion:
            return
        if meant := _meant_value(error):
            self.mends.setdefault(name, meant)
        elif error.field not in BY_NAME or BY_NAME[error.field].top != "device":
            self.suggestions.append(dict(error.suggestion))

    @property
    def first_error(self) -> str:
        """The form field with an error that stands first on the page."""
        ordered = (name for name in (*PAGE_ORDER, *self.errors) if name in self.errors)
        return next(ordered, "")


def new_idempotency_key() -> str:
    """Makes a form that is posted twice one job."""
    return secrets.token_urlsafe(16)


def new_form_values(project: str) -> dict[str, str]:
    """The values of a fresh form."""
    return DEFAULTS | {"project": project, "key": new_idempotency_key()}


def values_from_job(
    user: User, job: Job, project: str, changes: Mapping[str, Any], limits: RequestLimits
) -> dict[str, str]:
    """The values that request the same job, as far as the user may read them, with these fields of
    the request changed. Amounts that nobody chose follow a changed device."""
    fields = chosen_fields(readable_request(user, job), limits) | dict(changes)
    return values_from_request(fields, project) | start_condition_values(job)


def values_from_request(fields: Mapping[str, Any], project: str) -> dict[str, str]:
    """The values that describe a request; without its begin time and dependencies."""
    values = new_form_values(project) | field_values(fields) | _device_values(fields["device"])
    return values | {"project": project}


def with_changes(values: Mapping[str, str], changes: Mapping[str, Any]) -> dict[str, str]:
    """The values with these fields of the request changed, and everything else as typed."""
    filled = field_values(changes)
    if "device" in changes:
        filled |= _device_values(changes["device"])
    return {**values, **filled}


def with_filled(values: Mapping[str, str], filled: str) -> dict[str, str]:
    """The values with one field as a button fills it in: "time_limit=2h"."""
    name, _equals, text = filled.partition("=")
    return {**values, name: text[:MAX_TEXT]} if name in DEFAULTS else dict(values)


def _device_values(device: Mapping[str, Any]) -> dict[str, str]:
    kinds = (kind for kind in (WHOLE_GPUS, MPS_SHARE, BY_MEMORY) if kind in device)
    filled = {"amount": next(kinds, str(device.get("mig", "")))}
    filled["models"] = " ".join(device.get("models", ()))
    if WHOLE_GPUS in device:
        filled["gpus"] = str(device["gpus"])
    if share := device.get("mps"):
        filled |= {"threads": str(share["threads"]), "share_memory": str(share["memory"])}
    if memory := device.get("memory"):
        isolation = str(device.get("isolation", DEFAULTS["isolation"]))
        filled |= {"device_memory": str(memory), "isolation": isolation}
    return filled


def curl_command(request: JobRequest, url: str) -> str:
    """The request as one REST call, quoted for a shell."""
    body = json.dumps(request_as_dict(request), ensure_ascii=False)
    rest = shlex.join([url, "-H", "Content-Type: application/json", "-d", body])
    return f'curl -H "Authorization: Bearer $TESSERA_TOKEN" {rest}'


def parse_form(data: Mapping[str, str], limits: RequestLimits) -> FilledForm:
    """A checked request, or an error for every invalid field. All values are kept as typed."""
    values = {name: data.get(name, "")[:MAX_TEXT] for name in (*DEFAULTS, "project", "key")}
    values["volumes"] = volumes_text(data, values["volumes"])[:MAX_TEXT]
    repository, sent = data.get(REPOSITORY_FIELD, "").strip()[:MAX_TEXT], values["code"].strip()
    values["code"] = repository or values["code"]
    form = FilledForm(values)
    if repository and sent:
        form.errors["code"] = _("Choose either the code of the list or a repository, not both")
    body = parse_fields(values, form.errors, form.readings)
    if device := _device(form):
        body["device"] = device
    try:
        request = parse_request(body, limits)
    except InvalidRequest as refused:
        for error in refused.errors:
            form.add_refusal(error)
    else:
        form.request = request if not form.errors else None
    return form


def _meant_value(error: FieldError) -> str:
    """The corrected text of the field alone; empty if the correction changes other fields."""
    if error.field == "device.mps.memory":
        return str(error.suggestion["device"]["mps"]["memory"])
    field = BY_NAME.get(error.field)
    if field is None or error.suggestion.keys() != {field.top}:
        return ""
    value = field.value_in(error.suggestion)
    if field.kind is FieldKind.COUNT_RANGE:
        return count_range_words(value)
    return str(value) if isinstance(value, str | int) else ""


def _device(form: FilledForm) -> dict[str, Any]:
    values, errors = form.values, form.errors
    amount = values["amount"]
    device: dict[str, Any] = {}
    models = split_words(values["models"])
    if model := amount_model(amount):
        if models and models != [model]:
            text = _(
                "The selected card is for %(model)s: leave this empty, or select any whole GPU"
            )
            errors["models"] = text % {"model": model}
        models = [model]
    if is_gpu_count(amount):
        device = {"gpus": parse_number(values["gpus"])}
    elif amount == MPS_SHARE:
        threads = parse_number(values["threads"].strip().removesuffix("%"))
        device = {"mps": {"threads": threads, "memory": _typed_memory(form, "share_memory")}}
    elif amount == BY_MEMORY:
        isolation = values["isolation"] or DEFAULTS["isolation"]
        device = {"memory": _typed_memory(form, "device_memory"), "isolation": isolation}
    elif size := memory_of(amount):
        device = {"memory": size}
    elif amount:
        device = {"mig": amount}
    if device and models:
        device["models"] = models
    return device


def _typed_memory(form: FilledForm, name: str) -> str:
    text = form.values[name]
    return read_amount(name, FieldKind.SIZE, text, form.readings, timezone.localtime())


def memory_amount(memory: str) -> str:
    """The amount of a card: "memory:16GiB"."""
    return f"{BY_MEMORY}:{memory}"


def memory_of(amount: str) -> str:
    """The GPU memory that the amount of a card names, or nothing."""
    kind, _colon, size = amount.partition(":")
    return size if kind == BY_MEMORY else ""


def is_gpu_count(amount: str) -> bool:
    return amount.partition(":")[0] == WHOLE_GPUS


def amount_model(amount: str) -> str:
    """The GPU model that an amount of whole GPUs names, or nothing."""
    return amount.partition(":")[2] if is_gpu_count(amount) else ""


def _form_field(path: str, amount: str) -> str:
    """The form field that shows an error in a field of the request."""
    head = path.split(".")[0]
    if head == "device":
        parts = {
            "device.mps.threads": "threads",
            "device.mps.memory": "share_memory",
            "device.memory": "device_memory",
            "device.isolation": "isolation",
        }
        if path.startswith("device.models"):
            return "models"
        return "gpus" if is_gpu_count(amount) else parts.get(path, "amount")
    if path in BY_NAME:
        return BY_NAME[path].form_name
    if head == "retries":
        return "infrastructure_retries"
    return head or "name"
