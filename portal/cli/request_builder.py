"""Builds a job request from a file and flags, which take precedence. REST checks it. Pure."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.sbatch import ImportedScript, is_script, job_name, read_script, read_time

DEVICE_WAYS = ("gpus", "mig", "mps", "memory")
_SLURM_TIME = re.compile(r"[0-9-]*:[0-9:]*|[0-9]+-[0-9]+")


def read_request_file(text: str, name: str, arguments: list[str]) -> ImportedScript:
    """A YAML request or a script with a header. Raises CommandFailed(request_unreadable)."""
    if is_script(text):
        return read_script(text, arguments, name)
    try:
        fields = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = " ".join(str(error).split())
        raise _unreadable(f"{name} is not valid YAML: {where}") from error
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise _unreadable(f"{name} is not a request: it must have fields such as image and command")
    return ImportedScript(dict(fields) | ({"command": arguments} if arguments else {}))


def merge_flags(base: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The file's fields, overridden by flags. Device flags replace the file's device, except that
    models and isolation only narrow it."""
    body = {**base}
    for name, value in flags.items():
        if value in (None, [], {}):
            continue
        if name == "device":
            body[name] = _device(base.get("device"), value)
        elif name in ("env", "retries"):
            body[name] = {**(base.get(name) or {}), **value}
        else:
            body[name] = value
    if "name" not in body and body.get("command"):
        body["name"] = job_name(str(_program(body["command"])))
    return body


def device_from_flags(
    *,
    gpus: int | None = None,
    mig: str = "",
    mps: str = "",
    gpu_memory: str = "",
    models: list[str] | None = None,
    isolation: str = "",
) -> dict[str, Any]:
    """The requested device; empty without device flags."""
    device: dict[str, Any] = {}
    if gpus is not None:
        device["gpus"] = gpus
    if mig:
        device["mig"] = mig
    if mps:
        device["mps"] = _share(mps)
    if gpu_memory:
        device["memory"] = binary_memory(gpu_memory)
    if models:
        device["models"] = models
    if isolation:
        device["isolation"] = isolation
    return device


def retries_from_flags(infrastructure: int | None, user: int | None) -> dict[str, int]:
    """The retry counts that were given."""
    counts = {"infrastructure": infrastructure, "user": user}
    return {name: count for name, count in counts.items() if count is not None}


def environment_from_flags(pairs: list[str], own: Mapping[str, str]) -> dict[str, str]:
    """["A=1", "HOME"] -> {"A": "1", "HOME": its value in `own`}."""
    variables = {}
    for pair in pairs:
        name, has_value, value = pair.partition("=")
        if not has_value and name not in own:
            sentence = f"--env {name}: the variable is not set; write {name}=VALUE"
            raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE)
        variables[name] = value if has_value else own[name]
    return variables


def parse_time_limit(text: str) -> str:
    """A time limit: "4h" as it is, Slurm's "1:30:00" and "2-12" converted."""
    if not _SLURM_TIME.fullmatch(text):
        return text
    try:
        return read_time(text)
    except ValueError as error:
        sentence = f"--time {text}: {error}, or e.g. 4h"
        raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE) from error


def binary_memory(text: str) -> str:
    """ "10G", "10GB" or "10GiB" as "10GiB", the unit of REST."""
    match = re.fullmatch(r"([0-9]+)\s*([MGT])(?:i?B)?", text.strip(), re.IGNORECASE)
    return f"{match[1]}{match[2].upper()}iB" if match else text


def parse_mib(text: str) -> int:
    """ "10GB" -> 10240. Raises CommandFailed(usage)."""
    match = re.fullmatch(r"([0-9]{1,9})([MGT])iB", binary_memory(text))
    if match is None:
        sentence = f"{text!r} is not an amount of memory such as 10GB"
        raise CommandFailed("usage", sentence, "tessera offers --mem 10GB", ExitCode.USAGE)
    return int(match[1]) << {"M": 0, "G": 10, "T": 20}[match[2]]


def _device(old: Any, new: dict[str, Any]) -> dict[str, Any]:
    device = old if isinstance(old, Mapping) else {}
    if any(way in new for way in DEVICE_WAYS):
        device = {name: value for name, value in device.items() if name not in DEVICE_WAYS}
    return {**device, **new}


def _share(text: str) -> dict[str, Any]:
    match = re.fullmatch(r"([0-9]{1,3})%?[:,](.+)", text)
    if match is None:
        sentence = f"--mps {text}: write it as percent:memory, e.g. 25:20GiB"
        raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE)
    return {"threads": int(match[1]), "memory": binary_memory(match[2])}


def _program(command: Any) -> str:
    """The script of a command, for its name: "train.py" of python -u train.py."""
    words = [str(word) for word in command] if isinstance(command, list) else ["job"]
    scripts = [word for word in words if re.fullmatch(r"[^\s-][^\s]*\.(py|sh)", word)]
    return (scripts or words or ["job"])[0]


def _unreadable(sentence: str) -> CommandFailed:
    return CommandFailed("request_unreadable", sentence, "tessera submit --help", ExitCode.USAGE)
