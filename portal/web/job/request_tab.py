"""The Spec tab: a job's request as a command, JSON and YAML, to submit it again. Pure."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from portal.jobs.models import Job
from scheduler.core.request import (
    InvalidRequest,
    JobRequest,
    RequestLimits,
    parse_request,
    parse_stored_request,
    request_as_dict,
    request_as_yaml,
)


@dataclass(frozen=True, slots=True)
class JobSpec:
    cli: str
    json: str
    yaml: str


def job_spec(job: Job, limits: RequestLimits) -> JobSpec:
    """`limits`: the limits of new requests; flags equal to their defaults are left out."""
    request = parse_stored_request(job.request)
    text = json.dumps(request_as_dict(request), indent=2, ensure_ascii=False)
    return JobSpec(submit_command(request, limits), text, request_as_yaml(request))


def submit_command(request: JobRequest, limits: RequestLimits) -> str:
    """`tessera submit`, one flag a line; with a YAML file if flags cannot express the request."""
    fields = request_as_dict(request)
    if not _is_covered_by_flags(fields, limits):
        file = shlex.quote(f"{request.name}.yaml")
        return f"# save the YAML below as {file}\ntessera submit --file {file}"
    lines = ["tessera submit", *(" ".join(words) for words in _flags(fields))]
    return " \\\n  ".join([*lines, f"-- {shlex.join(fields['command'])}"])


def _is_covered_by_flags(fields: Mapping[str, Any], limits: RequestLimits) -> bool:
    """Whether a request made of the flags alone is the same request."""
    covered = {*FLAGS, *LISTS, "device", "env", "command"}
    body = {name: value for name, value in fields.items() if name in covered}
    if fields["preemptible"] and fields["priority"] != "low":
        body["preemptible"] = True
    for name, value in FLAG_DEFAULTS.items():
        if body.get(name) == value:
            del body[name]
    try:
        return request_as_dict(parse_request(body, limits)) == dict(fields)
    except InvalidRequest:
        return False


# Fields of the request with a flag of their own, in reading order.
FLAGS = {
    "project": "--project",
    "name": "--name",
    "kind": "--kind",
    "image": "--image",
    "launcher": "--launcher",
    "replicas": "--nodes",
    "processes": "--processes",
    "cpu": "--cpu",
    "memory": "--memory",
    "shm": "--shm",
    "disk": "--disk",
    "time_limit": "--time",
    "priority": "--priority",
    "topology": "--topology",
    "begin_at": "--begin",
}
# Left out of the command.
FLAG_DEFAULTS: dict[str, Any] = {
    "kind": "batch",
    "launcher": "none",
    "replicas": 1,
    "processes": 1,
    "shm": "0",
    "priority": "normal",
    "topology": "best",
}
LISTS = {"after": "--after", "needs": "--needs", "tolerates": "--tolerates"}


def _flags(fields: Mapping[str, Any]) -> Iterator[list[str]]:
    for name, flag in FLAGS.items():
        if name in fields and fields[name] != FLAG_DEFAULTS.get(name):
            yield [flag, shlex.quote(str(fields[name]))]
        if name == "image":
            yield from _device(fields["device"])
    for name, flag in LISTS.items():
        for value in fields.get(name, ()):
            yield [flag, shlex.quote(str(value))]
    for name, value in fields.get("env", {}).items():
        yield ["--env", shlex.quote(f"{name}={value}")]
    if fields.get("preemptible") and fields.get("priority") != "low":
        yield ["--preemptible"]


def _device(device: Mapping[str, Any]) -> Iterator[list[str]]:
    if "gpus" in device:
        yield ["--gpus", str(device["gpus"])]
    elif "mig" in device:
        yield ["--profile", shlex.quote(device["mig"])]
    elif "mps" in device:
        share = f"{device['mps']['threads']}:{device['mps']['memory']}"
        yield ["--mps", shlex.quote(share)]
    else:
        yield ["--gpu-memory", shlex.quote(str(device["memory"]))]
    for model in device.get("models", ()):
        yield ["--model", shlex.quote(model)]
    if "isolation" in device:
        yield ["--isolation", shlex.quote(device["isolation"])]
