"""The request form: its default values, and the job request that its values describe.

Only `scheduler.core.request` validates a request; the form maps its errors to fields.
"""

import json
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from portal.jobs.models import Job
from portal.submission.limits import request_limits
from portal.web.request.form_conditions import (
    EXTRAS,
    RETRIES,
    amount_values,
    condition_values,
    parse_amounts,
    parse_conditions,
    parse_number,
    split_words,
    start_condition_values,
)
from portal.web.wording.messages import message_text
from scheduler.core.request import (
    InvalidRequest,
    JobRequest,
    parse_request,
    request_as_dict,
)

# Values of the field `amount` that are not a MIG profile. Whole GPUs of one model are "gpus:H200".
WHOLE_GPUS, MPS_SHARE, BY_MEMORY = "gpus", "mps", "memory"
# Runs in every runtime and image, and prints the device it was given.
EXAMPLE_COMMAND = ("sh", "-c", 'echo "Hello from $NVIDIA_VISIBLE_DEVICES"; sleep 20; echo done')
DEFAULTS = {
    "name": "hello",
    "image": "tessera-example:latest",
    "command": shlex.join(EXAMPLE_COMMAND),
    "amount": "",
    "gpus": "1",
    "threads": "25",
    "share_memory": "8GiB",
    "device_memory": "16GiB",
    "isolation": "hardware",
    "models": "",
    "replicas": "1",
    "time_limit": "30m",
    "topology": "best",
    "launcher": "none",
    "priority": "normal",
    "backend": "auto",
    "cpu": "500m",
    "memory": "512MiB",
    "env": "",
    **EXTRAS,
}


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
    """Each mends an error: fields of the request with their new values."""

    def add_error(self, path: str, sentence: str) -> None:
        """Record an error in a field of the request, given by its path."""
        self.errors.setdefault(_form_field(path, self.values["amount"]), sentence)


def new_idempotency_key() -> str:
    """Makes a form that is posted twice one job."""
    return secrets.token_urlsafe(16)


def new_form_values(project: str) -> dict[str, str]:
    """The values of a fresh form."""
    return DEFAULTS | {"project": project, "key": new_idempotency_key()}


def values_from_job(
    job: Job, project: str, changes: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The values that request the same job, with these fields of the request changed."""
    fields = job.request | (changes or {})
    return values_from_request(fields, project, job.request["device"]) | start_condition_values(job)


def values_from_request(
    fields: Mapping[str, Any], project: str, device: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The values that describe a stored request. `device`: that of the original request, where
    `fields` have been changed."""
    filled = {
        name: str(fields[name])
        for name in ("name", "image", "replicas", "time_limit", "topology", "launcher")
    }
    filled |= {name: str(fields[name]) for name in ("priority", "cpu", "memory")}
    filled["backend"] = fields.get("backend", DEFAULTS["backend"])
    filled["command"] = shlex.join(fields["command"])
    filled["env"] = "\n".join(f"{name}={value}" for name, value in fields["env"].items())
    extras = amount_values(fields, device or fields["device"]) | condition_values(fields)
    return new_form_values(project) | filled | _device_values(fields["device"]) | extras


def with_changes(values: Mapping[str, str], changes: Mapping[str, Any]) -> dict[str, str]:
    """The values with these fields of the request changed, and everything else as typed."""
    plain = ("replicas", "time_limit", "topology", "launcher", "processes")
    filled = {name: str(changes[name]) for name in plain if name in changes}
    if "command" in changes:
        filled["command"] = shlex.join(changes["command"])
    if "needs" in changes:
        filled["needs"] = " ".join(changes["needs"])
    if "device" in changes:
        filled |= _device_values(changes["device"])
    return {**values, **filled}


def _device_values(device: Mapping[str, Any]) -> dict[str, str]:
    kinds = (kind for kind in (WHOLE_GPUS, MPS_SHARE, BY_MEMORY) if kind in device)
    filled = {"amount": next(kinds, str(device.get("mig", "")))}
    filled["models"] = " ".join(device.get("models", ()))
    if WHOLE_GPUS in device:
        filled["gpus"] = str(device["gpus"])
    if share := device.get("mps"):
        filled |= {"threads": str(share["threads"]), "share_memory": share["memory"]}
    if memory := device.get("memory"):
        isolation = str(device.get("isolation", DEFAULTS["isolation"]))
        filled |= {"device_memory": str(memory), "isolation": isolation}
    return filled


def curl_command(request: JobRequest, url: str) -> str:
    """The request as one REST call, quoted for a shell."""
    body = json.dumps(request_as_dict(request), ensure_ascii=False)
    rest = shlex.join([url, "-H", "Content-Type: application/json", "-d", body])
    return f'curl -H "Authorization: Bearer $TESSERA_TOKEN" {rest}'


def parse_form(data: Mapping[str, str]) -> FilledForm:
    """A checked request, or an error for every invalid field. All values are kept as typed."""
    values = {name: data.get(name, "")[:65_536] for name in (*DEFAULTS, "project", "key")}
    form = FilledForm(values)
    body = _body(values, form.errors)
    try:
        request = parse_request(body, request_limits())
    except InvalidRequest as refused:
        for error in refused.errors:
            form.add_error(error.field, message_text(error.message))
            form.suggestions += [dict(error.suggestion)] if error.suggestion else []
    else:
        form.request = request if not form.errors else None
    return form


def _body(values: dict[str, str], errors: dict[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {
        name: values[name]
        for name in ("project", "name", "image", "time_limit", "topology", "launcher", "priority")
    }
    body["backend"] = values["backend"] or DEFAULTS["backend"]
    body |= {name: values[name] for name in ("cpu", "memory") if values[name]}
    body["replicas"] = parse_number(values["replicas"])
    body["command"] = _command(values["command"], errors)
    body["env"] = _env(values["env"], errors)
    if device := _device(values, errors):
        body["device"] = device
    return body | parse_amounts(values) | parse_conditions(values)


def _device(values: dict[str, str], errors: dict[str, str]) -> dict[str, Any]:
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
        threads = parse_number(values["threads"])
        device = {"mps": {"threads": threads, "memory": values["share_memory"]}}
    elif amount == BY_MEMORY:
        isolation = values["isolation"] or DEFAULTS["isolation"]
        device = {"memory": values["device_memory"], "isolation": isolation}
    elif amount:
        device = {"mig": amount}
    if device and models:
        device["models"] = models
    return device


def is_gpu_count(amount: str) -> bool:
    return amount.partition(":")[0] == WHOLE_GPUS


def amount_model(amount: str) -> str:
    """The GPU model that an amount of whole GPUs names, or nothing."""
    return amount.partition(":")[2] if is_gpu_count(amount) else ""


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
    if head == "retries":
        retry_fields = {kind: name for name, kind in RETRIES.items()}
        return retry_fields.get(path.removeprefix("retries."), "infrastructure_retries")
    return head or "name"
