"""Builds a job request from a file and flags, which take precedence. REST checks it. Pure."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.sbatch import ImportedScript, is_script, job_name, read_script
from scheduler.core.request_fields import FIELDS

# Parts of a device that exclude each other.
DEVICE_WAYS = ("gpus", "mig", "mps", "memory")


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


def read_request_stream(text: str, name: str) -> list[dict[str, Any]]:
    """The requests of a YAML file with several: documents between lines of `---`, or a list. Empty
    for a file with one. Raises CommandFailed(request_unreadable)."""
    try:
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = " ".join(str(error).split())
        raise _unreadable(f"{name} is not valid YAML: {where}") from error
    if len(documents) == 1:
        documents = documents[0] if isinstance(documents[0], list) else []
    if not all(isinstance(each, dict) for each in documents):
        raise _unreadable(f"{name} has a document that is not a request with fields such as image")
    return documents


def merge_flags(base: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The file's fields, overridden by flags. Device flags replace the file's device, except that
    models and isolation only narrow it."""
    set_by_flags = [field for field in FIELDS if field.name in flags]
    replaced = {spelling for field in set_by_flags for spelling in field.spellings}
    body = {name: value for name, value in base.items() if name not in replaced}
    for name, value in flags.items():
        if value in (None, [], {}):
            continue
        if name == "device":
            body[name] = _device(base.get("device"), value)
        elif name in ("env", "retries"):
            old = base.get(name) or {}
            # Anything else is left for REST to refuse.
            body[name] = {**old, **value} if isinstance(old, Mapping) else old
        else:
            body[name] = value
    if "name" not in body and body.get("command"):
        body["name"] = job_name(str(_program(body["command"])))
    return body


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


def parse_time_limit(flag: str, text: str) -> str:
    """A time for REST to read. "1:30" alone is refused: minutes and seconds in Slurm, hours and
    minutes on the pages. Raises CommandFailed(usage)."""
    if re.fullmatch(r"[0-9]+:[0-9]+", text.strip()):
        first, _, second = text.strip().partition(":")
        hours, minutes = f"{first}h{second}m", f"{first}m{second}s"
        sentence = f"{flag} {text} may be {hours} or, as in Slurm, {minutes}: write one of these"
        raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE)
    return text


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


def parse_share(text: str) -> dict[str, Any]:
    """ "25:20GiB" as threads and memory. Raises CommandFailed(usage)."""
    match = re.fullmatch(r"([0-9]{1,3})%?[:,](.+)", text)
    if match is None:
        sentence = f"--mps {text}: write it as percent:memory, e.g. 25:20GiB"
        raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE)
    return {"threads": int(match[1]), "memory": match[2]}


def _program(command: Any) -> str:
    """The script of a command, for its name: "train.py" of python -u train.py."""
    words = [str(word) for word in command] if isinstance(command, list) else ["job"]
    scripts = [word for word in words if re.fullmatch(r"[^\s-][^\s]*\.(py|sh)", word)]
    return (scripts or words or ["job"])[0]


def _unreadable(sentence: str) -> CommandFailed:
    return CommandFailed("request_unreadable", sentence, "tessera submit --help", ExitCode.USAGE)
