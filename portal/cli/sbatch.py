"""Reads the `#SBATCH` header of a Slurm script into a request: an importer, not an emulation. Pure.

What it does not know it names and leaves out. The script itself goes along in the command, so that
nothing has to be copied to a node first.
"""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from portal.cli.exit_codes import CommandFailed, ExitCode

# One word of a command, as REST takes it.
LONGEST_SCRIPT = 32_768
SHELLS = frozenset(("bash", "dash", "sh", "zsh"))
_PROFILE = re.compile(r"[1-9]g\.[0-9]{1,3}gb(?:[+-][a-z.]{1,8})?")
_TIME = re.compile(r"(?:(?P<days>[0-9]{1,5})-)?(?P<clock>[0-9]{1,7}(?::[0-9]{1,7}){0,2})")
_MEMORY = re.compile(r"([0-9]{1,12})([KMGTkmgt]?)[Bb]?")
# Slurm counts in powers of two whatever it calls them; a bare number is megabytes.
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
    """A part of a request, and what was left out, each with its line."""

    fields: dict[str, Any] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def is_script(text: str) -> bool:
    return text.startswith("#!") or bool(re.search(r"(?m)^#SBATCH\b", text))


def read_script(text: str, arguments: list[str], name: str) -> ImportedScript:
    """The request in a script: its header, and the whole of it as the command.

    Raises Failed(script_invalid).
    """
    found = read_header(text)
    found.fields.setdefault("name", job_name(name))
    found.fields["command"] = _command(text, arguments, name)
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*srun\b", line):
            found.ignored.append(
                f"line {number}: a container has no srun: start the program itself there"
            )
    return found


def read_header(text: str) -> ImportedScript:
    """The `#SBATCH` lines before the first command, as Slurm reads them."""
    found = ImportedScript()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            break
        if line.startswith("#SBATCH"):
            _line(found, number, line.removeprefix("#SBATCH"))
    _settle(found)
    return found


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
    """A name that a job may have: "my job.sh" -> "my-job"."""
    stem = PurePosixPath(text).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:63] or "job"


def _line(found: ImportedScript, number: int, rest: str) -> None:
    try:
        words = shlex.split(rest, comments=True)
    except ValueError:
        found.ignored.append(f"line {number}: {rest.strip()}: a quote does not end")
        return
    while words:
        option, value = _option(words)
        read = READERS.get(option)
        if read is None:
            told = f"{option} {value}".strip()
            found.ignored.append(f"line {number}: {told}: Tessera has nothing like it")
            continue
        try:
            read(found.fields, value)
        except ValueError as wrong:
            found.ignored.append(f"line {number}: {option} {value}: {wrong}")


def _option(words: list[str]) -> tuple[str, str]:
    """Takes one option with its value off the front."""
    word = words.pop(0)
    if word.startswith("--"):
        name, is_there, value = word.removeprefix("--").partition("=")
    else:
        name, value = word[1:2], word[2:].removeprefix("=")
        is_there = value
        name = _SHORT.get(name, name)
    if not is_there and words and not words[0].startswith("-"):
        value = words.pop(0)
    dashes = "--" if len(name) > 1 else "-"
    return f"{dashes}{name}", value


def _count(value: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,6}", value):
        raise ValueError("write a whole number")
    return int(value)


def _gres(fields: dict[str, Any], value: str) -> None:
    """ "gpu:2", "gpu:h100:2", "gpu:1g.10gb:1"; other resources than gpu do not exist here."""
    name, *rest = value.partition("(")[0].split(":")
    if name != "gpu" or len(rest) > 2:
        raise ValueError("only gpu:N and gpu:TYPE:N are known")
    kind = rest.pop(0) if rest and not rest[0].isdecimal() else ""
    count = _count(rest[0]) if rest else 1
    if _PROFILE.fullmatch(kind):
        if count > 1:
            raise ValueError("a replica gets one MIG slice: ask for more --nodes")
        fields["device"] = {"mig": kind}
    else:
        fields["device"] = {"gpus": count} | ({"models": [kind]} if kind else {})


def _gpus(fields: dict[str, Any], value: str) -> None:
    _gres(fields, f"gpu:{value}")


def _set(field: str, read: Callable[[str], Any]) -> Callable[[dict[str, Any], str], None]:
    def put(fields: dict[str, Any], value: str) -> None:
        fields[field] = read(value)

    return put


READERS: dict[str, Callable[[dict[str, Any], str], None]] = {
    "--gres": _gres,
    "--gpus-per-node": _gpus,
    "--time": _set("time_limit", read_time),
    "--nodes": _set("replicas", _count),
    "--ntasks-per-node": _set("processes", _count),
    "--job-name": _set("name", job_name),
    "--mem": _set("memory", read_memory),
    "--cpus-per-task": _set("cpu", _count),
}


def _settle(found: ImportedScript) -> None:
    """Slurm counts CPUs per task; a replica is all tasks of one node. Several tasks are started by
    torchrun, which tells each its rank."""
    tasks = found.fields.pop("processes", 1)
    if "cpu" in found.fields:
        found.fields["cpu"] *= tasks
    if tasks > 1:
        found.fields |= {"processes": tasks, "launcher": "torchrun"}


def _command(text: str, arguments: list[str], name: str) -> list[str]:
    first = text.partition("\n")[0]
    words = shlex.split(first.removeprefix("#!")) if first.startswith("#!") else ["/bin/bash"]
    if words and PurePosixPath(words[0]).name == "env":
        words = words[1:]
    program = PurePosixPath(words[0]).name if words else ""
    if len(text) > LONGEST_SCRIPT:
        sentence = f"The script has more than {LONGEST_SCRIPT} characters: put it into the image"
    elif program in SHELLS:
        return [*words, "-c", text, name, *arguments]
    elif program.startswith("python"):
        return [*words, "-c", text, *arguments]
    else:
        sentence = f"{first!r}: only scripts for a shell or Python are sent along"
    raise CommandFailed("script_invalid", sentence, "tessera submit ... -- COMMAND", ExitCode.USAGE)
