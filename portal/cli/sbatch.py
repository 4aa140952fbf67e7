"""Imports the `#SBATCH` header of a Slurm script into a request. It does not emulate Slurm. Pure.

Unknown options are reported and left out. The script itself travels in the command, so nothing has
to be copied to a node.
"""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from portal.cli.exit_codes import CommandFailed, ExitCode
from scheduler.core.request_fields import FIELDS, FieldKind, read_count_range

# REST accepts at most this many characters in one word of a command.
MAX_SCRIPT_LENGTH = 32_768
SHELLS = frozenset(("bash", "dash", "sh", "zsh"))
_PROFILE = re.compile(r"[1-9]g\.[0-9]{1,3}gb(?:[+-][a-z.]{1,8})?")
_TIME = re.compile(r"(?:(?P<days>[0-9]{1,5})-)?(?P<clock>[0-9]{1,7}(?::[0-9]{1,7}){0,2})")
_MEMORY = re.compile(r"([0-9]{1,12})([KMGTkmgt]?)[Bb]?")
# Slurm's units are powers of two; a bare number is in megabytes.
_MIB = {"": 1, "M": 1, "G": 1 << 10, "T": 1 << 20}
_SHORT = {
    "J": "job-name",
    "t": "time",
    "N": "nodes",
    "c": "cpus-per-task",
    "G": "gpus",
    "A": "account",
}


@dataclass
class ImportedScript:
    """Request fields, and the ignored options with their line numbers."""

    fields: dict[str, Any] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def is_script(text: str) -> bool:
    return text.startswith("#!") or bool(re.search(r"(?m)^#SBATCH\b", text))


def read_script(text: str, arguments: list[str], name: str) -> ImportedScript:
    """The request of a script: its header, and its full text as the command.

    Raises CommandFailed(script_invalid).
    """
    script = read_header(text)
    script.fields.setdefault("name", job_name(name))
    script.fields["command"] = _command(text, arguments, name)
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*srun\b", line):
            script.ignored.append(
                f"line {number}: containers have no srun: start the program directly"
            )
    return script


def read_header(text: str) -> ImportedScript:
    """The `#SBATCH` lines before the first command, which are the ones that Slurm reads."""
    script = ImportedScript()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            break
        if line.startswith("#SBATCH"):
            _read_line(script, number, line.removeprefix("#SBATCH"))
    _settle(script)
    return script


def read_time(text: str) -> str:
    """Slurm's "90", "1:30:00" or "2-12" as "1h30m". Raises ValueError."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError("write it as minutes, HH:MM:SS or D-HH:MM:SS")
    parts = [int(part) for part in match["clock"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return f"{((int(match['days']) * 24 + hours) * 60 + minutes) * 60 + seconds}s"
    if len(parts) == 1:
        return f"{parts[0] * 60}s"
    hours, minutes, seconds = (0, *parts) if len(parts) == 2 else parts
    return f"{(hours * 60 + minutes) * 60 + seconds}s"


def read_memory(text: str) -> str:
    """Slurm's "64G" as "64GiB". Raises ValueError."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None or not int(match[1]):
        raise ValueError("write it as 64G")
    amount, unit = int(match[1]), match[2].upper()
    if unit == "K":
        return f"{max(1, amount >> 10)}MiB"
    mib = amount * _MIB[unit]
    return f"{mib >> 10}GiB" if mib % 1024 == 0 else f"{mib}MiB"


def job_name(text: str) -> str:
    """A valid job name: "my job.sh" -> "my-job"."""
    stem = PurePosixPath(text).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:63] or "job"


def _read_line(script: ImportedScript, number: int, rest: str) -> None:
    try:
        words = shlex.split(rest, comments=True)
    except ValueError:
        script.ignored.append(f"line {number}: {rest.strip()}: unterminated quote")
        return
    while words:
        option, value = _option(words)
        read = READERS.get(option)
        if read is None:
            text = f"{option} {value}".strip()
            script.ignored.append(f"line {number}: {text}: not supported")
            continue
        try:
            read(script.fields, value)
        except ValueError as error:
            script.ignored.append(f"line {number}: {option} {value}: {error}")


def _option(words: list[str]) -> tuple[str, str]:
    """Remove one option and its value from the front of `words`."""
    word = words.pop(0)
    if word.startswith("--"):
        name, has_value, value = word.removeprefix("--").partition("=")
    else:
        name, value = word[1:2], word[2:].removeprefix("=")
        has_value = value
        name = _SHORT.get(name, name)
    if not has_value and words and not words[0].startswith("-"):
        value = words.pop(0)
    dashes = "--" if len(name) > 1 else "-"
    return f"{dashes}{name}", value


def _count(value: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,6}", value):
        raise ValueError("write a positive integer")
    return int(value)


def _count_range(value: str) -> Any:
    """ "4", or "2-8" for the fewest and the most."""
    read = read_count_range(value)
    return read if isinstance(read, dict) else _count(value)


def _gres(fields: dict[str, Any], value: str) -> None:
    """ "gpu:2", "gpu:h100:2" or "gpu:1g.10gb:1"; gpu is the only supported resource."""
    name, *rest = value.partition("(")[0].split(":")
    if name != "gpu" or len(rest) > 2:
        raise ValueError("only gpu:N and gpu:TYPE:N are supported")
    kind = rest.pop(0) if rest and not rest[0].isdecimal() else ""
    count = _count(rest[0]) if rest else 1
    if _PROFILE.fullmatch(kind):
        if count > 1:
            raise ValueError("a replica has one MIG slice: request more --nodes instead")
        fields["device"] = {"mig": kind}
    else:
        fields["device"] = {"gpus": count} | ({"models": [kind]} if kind else {})


def _gpus(fields: dict[str, Any], value: str) -> None:
    _gres(fields, f"gpu:{value}")


def _set(field: str, read: Callable[[str], Any]) -> Callable[[dict[str, Any], str], None]:
    def put(fields: dict[str, Any], value: str) -> None:
        fields[field] = read(value)

    return put


# How Slurm writes a value of each kind. The name of a job is any text.
SLURM_READERS: dict[FieldKind, Callable[[str], Any]] = {
    FieldKind.TEXT: job_name,
    FieldKind.COUNT: _count,
    FieldKind.COUNT_RANGE: _count_range,
    FieldKind.CPU: _count,
    FieldKind.SIZE: read_memory,
    FieldKind.DURATION: read_time,
}
READERS: dict[str, Callable[[dict[str, Any], str], None]] = {
    directive: _set(field.name, SLURM_READERS[field.kind])
    for field in FIELDS
    if not field.part
    for directive in field.directives
} | {"--gres": _gres, "--gpus-per-node": _gpus}


def _settle(script: ImportedScript) -> None:
    """Convert CPUs per task to CPUs per replica (all tasks of a node). Several tasks are started by
    torchrun, which gives each its rank."""
    tasks = script.fields.pop("processes", 1)
    if "cpu" in script.fields:
        script.fields["cpu"] *= tasks
    if tasks > 1:
        script.fields |= {"processes": tasks, "launcher": "torchrun"}


def _command(text: str, arguments: list[str], name: str) -> list[str]:
    first = text.partition("\n")[0]
    words = shlex.split(first.removeprefix("#!")) if first.startswith("#!") else ["/bin/bash"]
    if words and PurePosixPath(words[0]).name == "env":
        words = words[1:]
    program = PurePosixPath(words[0]).name if words else ""
    if len(text) > MAX_SCRIPT_LENGTH:
        sentence = f"The script has more than {MAX_SCRIPT_LENGTH} characters: put it in the image"
    elif program in SHELLS:
        return [*words, "-c", text, name, *arguments]
    elif program.startswith("python"):
        return [*words, "-c", text, *arguments]
    else:
        sentence = f"{first!r}: only shell and Python scripts can be submitted"
    raise CommandFailed("script_invalid", sentence, "tessera submit ... -- COMMAND", ExitCode.USAGE)
