"""Puts a request together from a file and from flags, which win. REST checks it. Pure."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.sbatch import ImportedScript, is_script, job_name, read_script, read_time

DEVICE_WAYS = ("gpus", "mig", "mps", "memory")
_SLURM_TIME = re.compile(r"[0-9-]*:[0-9:]*|[0-9]+-[0-9]+")


def read_request_file(text: str, name: str, arguments: list[str]) -> ImportedScript:
    """A YAML request, or a script with a header. Raises Failed(request_unreadable)."""
    if is_script(text):
        return read_script(text, arguments, name)
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as wrong:
        where = " ".join(str(wrong).split())
        raise _unreadable(f"{name} is no YAML: {where}") from wrong
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise _unreadable(f"{name} holds no request: write one field a line, such as gpus")
    return ImportedScript(dict(found) | ({"command": arguments} if arguments else {}))


def merge_flags(base: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The file's fields with the flags that were given. A device is replaced as a whole, and one
    that is only narrowed (models, isolation) keeps what it is."""
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
    """The device that flags ask for; empty where they ask for none."""
    found: dict[str, Any] = {}
    if gpus is not None:
        found["gpus"] = gpus
    if mig:
        found["mig"] = mig
    if mps:
        found["mps"] = _share(mps)
    if gpu_memory:
        found["memory"] = binary_memory(gpu_memory)
    if models:
        found["models"] = models
    if isolation:
        found["isolation"] = isolation
    return found


def retries_from_flags(infrastructure: int | None, user: int | None) -> dict[str, int]:
    """What flags say of them; the other one stays what it is."""
    given = {"infrastructure": infrastructure, "user": user}
    return {name: count for name, count in given.items() if count is not None}


def environment_from_flags(pairs: list[str], own: Mapping[str, str]) -> dict[str, str]:
    """["A=1", "HOME"] -> {"A": "1", "HOME": what it is here}."""
    found = {}
    for pair in pairs:
        name, is_there, value = pair.partition("=")
        if not is_there and name not in own:
            sentence = f"--env {name}: it is not set here; write {name}=VALUE"
            raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE)
        found[name] = value if is_there else own[name]
    return found


def parse_time_limit(text: str) -> str:
    """ "4h" as it is; Slurm's "1:30:00" and "2-12" in Tessera's words."""
    if not _SLURM_TIME.fullmatch(text):
        return text
    try:
        return read_time(text)
    except ValueError as wrong:
        sentence = f"--time {text}: {wrong}, or as 4h"
        raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE) from wrong


def binary_memory(text: str) -> str:
    """ "10G", "10GB" and "10GiB" alike, in the unit that REST reads."""
    match = re.fullmatch(r"([0-9]+)\s*([MGT])(?:i?B)?", text.strip(), re.IGNORECASE)
    return f"{match[1]}{match[2].upper()}iB" if match else text


def parse_mib(text: str) -> int:
    """ "10GB" -> 10240. Raises Failed(usage)."""
    match = re.fullmatch(r"([0-9]{1,9})([MGT])iB", binary_memory(text))
    if match is None:
        sentence = f"{text}: write memory with its unit, such as 10GB"
        raise CommandFailed("usage", sentence, "tessera offers --mem 10GB", ExitCode.USAGE)
    return int(match[1]) << {"M": 0, "G": 10, "T": 20}[match[2]]


def _device(old: Any, new: dict[str, Any]) -> dict[str, Any]:
    kept = old if isinstance(old, Mapping) else {}
    if any(way in new for way in DEVICE_WAYS):
        kept = {name: value for name, value in kept.items() if name not in DEVICE_WAYS}
    return {**kept, **new}


def _share(text: str) -> dict[str, Any]:
    match = re.fullmatch(r"([0-9]{1,3})%?[:,](.+)", text)
    if match is None:
        sentence = f"--mps {text}: write percent and memory, such as 25:20GiB"
        raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE)
    return {"threads": int(match[1]), "memory": binary_memory(match[2])}


def _program(command: Any) -> str:
    """What the command is about: "train" of python -u train.py."""
    words = [str(word) for word in command] if isinstance(command, list) else ["job"]
    scripts = [word for word in words if re.fullmatch(r"[^\s-][^\s]*\.(py|sh)", word)]
    return (scripts or words or ["job"])[0]


def _unreadable(sentence: str) -> CommandFailed:
    return CommandFailed("request_unreadable", sentence, "tessera submit --help", ExitCode.USAGE)
