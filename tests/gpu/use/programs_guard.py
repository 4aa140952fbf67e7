"""Which programs a row may start, and with which arguments. All others are refused.

NVIDIA's tools change a GPU as easily as they read it, and run as root. The guard is an audit hook:
Python calls it for every program that this process starts, and nothing can take it away again. A
word of a command line that names a tool of NVIDIA's is checked also where another program stands
before it; a shell, which could hide it, is refused.
"""

import os
import re
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.gpu.guard import Forbidden, refused

Rule = Callable[[Sequence[str]], bool]

WHICH = re.compile(r"\d+|(GPU|MIG)-[\w/-]*|[0-9A-Fa-f:.]+")
SMI_PLAIN = {"-q", "-x", "-L", "--list-gpus", "--version", "-h", "--help"}
SMI_QUERY = re.compile(
    r"--(query-(gpu|compute-apps)=[\w.,]+|format=[\w,]+|help-query-(gpu|compute-apps))"
)
# Subcommands, and the words that may follow each.
SMI_COMMANDS = {
    "topo": {"-m"},
    "mig": {"-lgip", "-lgipp", "-lgi", "-lcip", "-lci"},
    "nvlink": {"-s"},
}
MPS_WORDS: tuple[tuple[str, ...], ...] = ((), ("-d",), ("-f",))


def _smi(words: Sequence[str]) -> bool:
    """nvidia-smi, as far as it only reads. `-i` names a GPU; a wrong one is what some rows ask."""
    plain = SMI_COMMANDS.get(words[0]) if words else None
    rest = list(words[1:] if plain is not None else words)
    plain = SMI_PLAIN if plain is None else plain
    while rest:
        word = rest.pop(0)
        if word == "-i":
            if not rest or not WHICH.fullmatch(rest.pop(0)):
                return False
        elif word not in plain and not (plain is SMI_PLAIN and SMI_QUERY.fullmatch(word)):
            return False
    return True


def _mps(words: Sequence[str]) -> bool:
    """The daemon, or the program that passes it commands, which come by its standard input."""
    return tuple(words) in MPS_WORDS


def _ncu(words: Sequence[str]) -> bool:
    """By default the profiler locks the clocks to their base while it measures."""
    if list(words) == ["--version"]:
        return True
    return ("--clock-control", "none") in pairwise(words) and words.count("--clock-control") == 1


# It starts another program, whose command line stands among its own words.
PROFILER = "ncu"


def _exactly(*allowed: str) -> Rule:
    return lambda words: " ".join(words) in allowed


# Those of the agent's preflight are in `agents.doctor.machine.ProbeCommand`.
RULES: dict[str, Rule] = {
    "nvidia-smi": _smi,
    "nvidia-cuda-mps-control": _mps,
    PROFILER: _ncu,
    "runc": _exactly("--version"),
    "nvidia-ctk": _exactly("--version", "cdi list"),
    "nvidia-container-cli": _exactly("--version"),
    "nv-fabricmanager": _exactly("--version"),
    "systemctl": _exactly("is-active nvidia-fabricmanager"),
    "apt-config": _exactly("dump"),
    "apt-mark": _exactly("showhold"),
    "timedatectl": _exactly("show"),
    "chronyc": _exactly("-c tracking"),
}
NVIDIAS = re.compile(r"nv(idia)?-[\w-]+|ncu|nsys|dcgmi")
PYTHON = re.compile(r"python[\d.]*")
SHELL = re.compile(r"(ba|da|k|z)?sh")


def reason(command: Sequence[str]) -> str:
    """Why this command line is refused; empty where it is not."""
    if not command:
        return "no program"
    names = [Path(word).name for word in command]
    if not PYTHON.fullmatch(names[0]) and names[0] not in RULES:
        return f"{names[0]} is not on the list"
    for at, name in enumerate(names):
        rule = RULES.get(name)
        if rule is not None and not rule(command[at + 1 :]):
            return f"{' '.join([name, *command[at + 1 :]])} is not known to only read"
        if rule is None and (NVIDIAS.fullmatch(name) or SHELL.fullmatch(name)):
            return f"{name} is not on the list"
        if rule is not None and name != PROFILER:
            return ""
    return ""


def close() -> None:
    """From now on this process starts no other programs. A second call changes nothing."""
    if not _closed:
        _closed.append(True)
        sys.addaudithook(_watch)


_closed: list[bool] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        path, words = arguments[0], [*map(os.fsdecode, arguments[1])]
        _require([os.fsdecode(path) if path else words[0], *words[1:]])
    elif event in ("os.system", "os.spawn", "os.startfile", "pty.spawn"):
        _refuse(f"{event}{arguments!r}: only lists of words are checked")


def _require(command: list[str]) -> None:
    why = reason(command)
    if why:
        _refuse(why)


def _refuse(why: str) -> None:
    refused.append(why)
    raise Forbidden(f"{why}: this suite changes no GPU")
