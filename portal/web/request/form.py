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
    amounts,
    amounts_like,
    conditions,
    conditions_like,
    number,
    still_ahead,
    words_of,
)
from portal.web.wording.messages import told_sentence
from scheduler.core.request import (
    JobRequest,
    RequestLimits,
    RequestRefused,
    parse_request,
    request_as_dict,
)

# Amounts that are no profile. Whole GPUs of one model are "gpus:H200".
WHOLE, SHARE, MEMORY = "gpus", "mps", "memory"
# Runs in every runtime and image: it tells which device it was given.
EXAMPLE = ("sh", "-c", 'echo "Hello from $NVIDIA_VISIBLE_DEVICES"; sleep 20; echo done')
DEFAULTS = {
    "name": "hello",
    "image": "tessera-example:latest",
    "command": shlex.join(EXAMPLE),
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
class Asked:
    """A form as it was filled in, with what came of reading it. `errors` by form field."""

    values: dict[str, str]
    request: JobRequest | None = None
    errors: dict[str, str] = field(default_factory=dict)

    def refuse(self, path: str, sentence: str) -> None:
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


def new_key() -> str:
    """Of one form: sent twice, it is one job."""
    return secrets.token_urlsafe(16)


def fresh(project: str) -> dict[str, str]:
    """A new form, with a key that makes a double submit one job."""
    return DEFAULTS | {"project": project, "key": new_key()}


def like(job: Job, project: str, changes: Mapping[str, Any] | None = None) -> dict[str, str]:
    """A new form filled in as the job was asked for, with these fields of the request changed."""
    asked = job.request | (changes or {})
    return filled_with(asked, project, job.request["device"]) | still_ahead(job)


def filled_with(
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
    extras = amounts_like(asked, device or asked["device"]) | conditions_like(asked)
    return fresh(project) | filled | _device_like(asked["device"]) | extras


def changed(values: Mapping[str, str], changes: Mapping[str, Any]) -> dict[str, str]:
    """The form with these fields of the request changed, and all else as it was typed."""
    plain = ("replicas", "time_limit", "topology")
    filled = {name: str(changes[name]) for name in plain if name in changes}
    if "needs" in changes:
        filled["needs"] = " ".join(changes["needs"])
    return {**values, **filled, **(_device_like(changes["device"]) if "device" in changes else {})}


def _device_like(device: Mapping[str, Any]) -> dict[str, str]:
    ways = (way for way in (WHOLE, SHARE, MEMORY) if way in device)
    filled = {"amount": next(ways, str(device.get("mig", "")))}
    filled["models"] = " ".join(device.get("models", ()))
    if WHOLE in device:
        filled["gpus"] = str(device["gpus"])
    if share := device.get("mps"):
        filled |= {"threads": str(share["threads"]), "share_memory": share["memory"]}
    if memory := device.get("memory"):
        isolation = str(device.get("isolation", DEFAULTS["isolation"]))
        filled |= {"device_memory": str(memory), "isolation": isolation}
    return filled


def as_curl(request: JobRequest, url: str) -> str:
    """The same request as one call of REST, safe to paste into a shell."""
    body = json.dumps(request_as_dict(request), ensure_ascii=False)
    rest = shlex.join([url, "-H", "Content-Type: application/json", "-d", body])
    return f'curl -H "Authorization: Bearer $TESSERA_TOKEN" {rest}'


def read(form: Mapping[str, str]) -> Asked:
    """The form as a checked request; every problem beside its field, nothing typed is lost."""
    values = {name: form.get(name, "")[:65_536] for name in (*DEFAULTS, "project", "key")}
    asked = Asked(values)
    body = _body(values, asked.errors)
    try:
        request = parse_request(body, limits())
    except RequestRefused as refused:
        for error in refused.errors:
            asked.refuse(error.field, told_sentence(error.sentence))
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
    body["replicas"] = number(values["replicas"])
    body["command"] = _words(values["command"], errors)
    body["env"] = _env(values["env"], errors)
    if device := _device(values, errors):
        body["device"] = device
    return body | amounts(values) | conditions(values)


def _device(values: dict[str, str], errors: dict[str, str]) -> dict[str, Any]:
    amount = values["amount"]
    device: dict[str, Any] = {}
    models = words_of(values["models"])
    if model := of_model(amount):
        if models and models != [model]:
            said = _("The card says %(model)s: leave this empty, or choose any whole GPU")
            errors["models"] = said % {"model": model}
        models = [model]
    if is_whole(amount):
        device = {"gpus": number(values["gpus"])}
    elif amount == SHARE:
        threads = number(values["threads"])
        device = {"mps": {"threads": threads, "memory": values["share_memory"]}}
    elif amount == MEMORY:
        isolation = values["isolation"] or DEFAULTS["isolation"]
        device = {"memory": values["device_memory"], "isolation": isolation}
    elif amount:
        device = {"mig": amount}
    if device and models:
        device["models"] = models
    return device


def is_whole(amount: str) -> bool:
    return amount.partition(":")[0] == WHOLE


def of_model(amount: str) -> str:
    """The model that an amount of whole GPUs names."""
    return amount.partition(":")[2] if is_whole(amount) else ""


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
        return "gpus" if is_whole(amount) else parts.get(path, "amount")
    if head == "retries":
        fields = {word: name for name, word in RETRIES.items()}
        return fields.get(path.removeprefix("retries."), "infrastructure_retries")
    return head or "name"
