"""The request page's form as a request. scheduler.core.request judges it, nobody else."""

import json
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from portal.jobs.models import Job
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
from portal.web.wording.messages import translated
from scheduler.core.request import (
    JobRequest,
    RequestLimits,
    RequestRefused,
    parse_request,
    request_as_dict,
)

# Amounts that are no profile. Whole GPUs of one model are "gpus:H200".
WHOLE_GPUS, MPS_SHARE, BY_MEMORY = "gpus", "mps", "memory"
# Runs in every runtime and image: it tells which device it was given.
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
    """A form as it was filled in, with what came of reading it. `errors` by form field."""

    values: dict[str, str]
    request: JobRequest | None = None
    errors: dict[str, str] = field(default_factory=dict)

    def add_error(self, path: str, sentence: str) -> None:
        """Note what is wrong with the request's field beside the form's own."""
        self.errors.setdefault(_form_field(path, self.values["amount"]), sentence)


def limits() -> RequestLimits:
    platform = settings.PLATFORM
    return RequestLimits(
        default_time_limit_seconds=platform.default_time_limit_seconds,
        max_time_limit_seconds=platform.max_time_limit_seconds,
        max_replicas=platform.max_replicas,
        image_allow=tuple(p.strip() for p in platform.image_allow.split(",") if p.strip()),
    )


def new_idempotency_key() -> str:
    """Of one form: sent twice, it is one job."""
    return secrets.token_urlsafe(16)


def new_form(project: str) -> dict[str, str]:
    """A new form, with a key that makes a double submit one job."""
    return DEFAULTS | {"project": project, "key": new_idempotency_key()}


def form_from_job(
    job: Job, project: str, changes: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """A new form filled in as the job was asked for, with these fields of the request changed."""
    asked = job.request | (changes or {})
    return form_from_request(asked, project, job.request["device"]) | start_condition_values(job)


def form_from_request(
    asked: Mapping[str, Any], project: str, device: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """A new form filled in with a request as it is stored. `device`: of the request as it was first
    made, where `asked` has changes."""
    filled = {
        name: str(asked[name])
        for name in ("name", "image", "replicas", "time_limit", "topology", "launcher")
    }
    filled |= {name: str(asked[name]) for name in ("priority", "cpu", "memory")}
    filled["backend"] = asked.get("backend", DEFAULTS["backend"])
    filled["command"] = shlex.join(asked["command"])
    filled["env"] = "\n".join(f"{name}={value}" for name, value in asked["env"].items())
    extras = amount_values(asked, device or asked["device"]) | condition_values(asked)
    return new_form(project) | filled | _device_like(asked["device"]) | extras


def with_changes(values: Mapping[str, str], changes: Mapping[str, Any]) -> dict[str, str]:
    """The form with these fields of the request changed, and all else as it was typed."""
    plain = ("replicas", "time_limit", "topology")
    filled = {name: str(changes[name]) for name in plain if name in changes}
    if "needs" in changes:
        filled["needs"] = " ".join(changes["needs"])
    return {**values, **filled, **(_device_like(changes["device"]) if "device" in changes else {})}


def _device_like(device: Mapping[str, Any]) -> dict[str, str]:
    ways = (way for way in (WHOLE_GPUS, MPS_SHARE, BY_MEMORY) if way in device)
    filled = {"amount": next(ways, str(device.get("mig", "")))}
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
    """The same request as one call of REST, safe to paste into a shell."""
    body = json.dumps(request_as_dict(request), ensure_ascii=False)
    rest = shlex.join([url, "-H", "Content-Type: application/json", "-d", body])
    return f'curl -H "Authorization: Bearer $TESSERA_TOKEN" {rest}'


def parse_form(form: Mapping[str, str]) -> FilledForm:
    """The form as a checked request; every problem beside its field, nothing typed is lost."""
    values = {name: form.get(name, "")[:65_536] for name in (*DEFAULTS, "project", "key")}
    asked = FilledForm(values)
    body = _body(values, asked.errors)
    try:
        request = parse_request(body, limits())
    except RequestRefused as refused:
        for error in refused.errors:
            asked.add_error(error.field, translated(error.sentence))
    else:
        asked.request = request if not asked.errors else None
    return asked


def _body(values: dict[str, str], errors: dict[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {
        name: values[name]
        for name in ("project", "name", "image", "time_limit", "topology", "launcher", "priority")
    }
    body["backend"] = values["backend"] or DEFAULTS["backend"]
    body |= {name: values[name] for name in ("cpu", "memory") if values[name]}
    body["replicas"] = parse_number(values["replicas"])
    body["command"] = _words(values["command"], errors)
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
            said = _("The card says %(model)s: leave this empty, or choose any whole GPU")
            errors["models"] = said % {"model": model}
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
    """The model that an amount of whole GPUs names."""
    return amount.partition(":")[2] if is_gpu_count(amount) else ""


def _words(text: str, errors: dict[str, str]) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        errors["command"] = _("a quote is not closed")
        return ["?"]


def _env(text: str, errors: dict[str, str]) -> dict[str, str]:
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals:
            errors["env"] = _("write one NAME=value in each line")
        found[name.strip()] = value
    return found


def _form_field(path: str, amount: str) -> str:
    """Where the page shows an error of the request's field."""
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
        fields = {word: name for name, word in RETRIES.items()}
        return fields.get(path.removeprefix("retries."), "infrastructure_retries")
    return head or "name"
