"""A job request as a `tessera submit` command, for pages and scripts. Pure."""

import shlex
from collections.abc import Mapping
from typing import Any

# What `tessera submit` requests if a flag is left out.
DEFAULTS = {
    "kind": "batch",
    "launcher": "none",
    "replicas": 1,
    "shm": "1GiB",
    "priority": "normal",
    "topology": "best",
    "backend": "auto",
    "grace": "30s",
}
FLAGS = {
    "project": "--project",
    "name": "--name",
    "kind": "--kind",
    "image": "--image",
    "replicas": "--nodes",
    "launcher": "--launcher",
    "cpu": "--cpu",
    "memory": "--memory",
    "shm": "--shm",
    "disk": "--disk",
    "time_limit": "--time",
    "priority": "--priority",
    "topology": "--topology",
    "backend": "--backend",
    "grace": "--grace",
    "begin_at": "--begin",
    "after": "--after",
    "needs": "--needs",
    "tolerates": "--tolerates",
}


def as_command(request: Mapping[str, Any]) -> str:
    """A request as one shell line that is safe to paste. Fields that it leaves out get the defaults
    of `tessera submit`."""
    words = ["tessera", "submit"]
    for field, flag in FLAGS.items():
        value = request.get(field)
        if value in (None, [], DEFAULTS.get(field)):
            continue
        for item in value if isinstance(value, list) else [value]:
            words += _flag(flag, item)
    words += _device(request.get("device") or {})
    if "processes" in request and request.get("launcher", "none") != DEFAULTS["launcher"]:
        words += _flag("--processes", request["processes"])
    retries = request.get("retries") or {}
    if retries.get("infrastructure", 3) != 3:
        words += _flag("--retries", retries["infrastructure"])
    if retries.get("user"):
        words += _flag("--user-retries", retries["user"])
    by_priority = request.get("priority") == "low"
    if request.get("preemptible", by_priority) != by_priority:
        words.append("--preemptible" if request["preemptible"] else "--no-preemptible")
    for name, value in (request.get("env") or {}).items():
        words += _flag("--env", f"{name}={value}")
    return shlex.join([*words, "--", *map(str, request["command"])])


def _flag(flag: str, value: object) -> list[str]:
    """Two words, or one if the value looks like a flag."""
    text = str(value)
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _device(device: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    if "gpus" in device:
        words += _flag("--gpus", device["gpus"])
    elif "mig" in device:
        words += _flag("--mig", device["mig"])
    elif "mps" in device:
        words += _flag("--mps", f"{device['mps']['threads']}:{device['mps']['memory']}")
    elif "memory" in device:
        words += _flag("--gpu-memory", device["memory"])
    for model in device.get("models", []):
        words += _flag("--model", model)
    if "isolation" in device:
        words += _flag("--isolation", device["isolation"])
    return words
