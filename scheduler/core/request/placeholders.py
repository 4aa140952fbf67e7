"""Names in braces in the command and environment of an array, filled in for each member: `{lr}`.

`{{lr}}` is left as `{lr}`, and `${lr}` is the shell's.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agents.contract.message import Message
from scheduler.core.request.arrays import (
    INDEX,
    Member,
    parameter_values,
    plain_request,
    refuse_array_combination,
)
from scheduler.core.request.program import MAX_ENV
from scheduler.core.request.values import JobRequest, ProblemCode, Refuse

_BRACED = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|(?<!\$)\{([A-Za-z_]\w*)\}", re.ASCII)
# The index and the size.
_OWN_VARIABLES = 2


def member_request(request: JobRequest, member: Member, size: int) -> JobRequest:
    """The request of one member, complete: placeholders filled in, its variables set."""
    values = {INDEX: str(member.index), **member.parameters}
    env = {name: _filled(text, values) for name, text in request.env.items()}
    env["TESSERA_ARRAY_INDEX"], env["TESSERA_ARRAY_SIZE"] = str(member.index), str(size)
    env |= {f"TESSERA_PARAM_{name.upper()}": text for name, text in member.parameters.items()}
    command = tuple(_filled(word, values) for word in request.command)
    return plain_request(request, command=command, env=env)


def refuse_placeholders(values: Mapping[str, Any], refuse: Refuse) -> None:
    """What an array cannot be, and names in braces that it has no value for. `values`: by attribute
    of JobRequest."""
    array, sweep = values["array"], values["sweep"]
    refuse_array_combination(array, sweep, refuse)
    if array or sweep:
        _refuse_unknown(values["command"], values["env"], sweep, refuse)


def _refuse_unknown(
    command: Sequence[str], env: Mapping[str, str], sweep: Sequence[str], refuse: Refuse
) -> None:
    """Of a request that is an array."""
    names = (INDEX, *parameter_values(sweep))
    if len(env) + len(names) - 1 + _OWN_VARIABLES > MAX_ENV:
        sentence = Message("at most %(n)s variables, with those of the array", n=MAX_ENV)
        refuse("env", ProblemCode.RANGE, sentence)
    for place, word in enumerate(command):
        for name in _unknown(word, names):
            mended = [*command[:place], _mended(word, name, names), *command[place + 1 :]]
            _refuse(f"command.{place}", name, names, {"command": mended}, refuse)
    for variable, text in env.items():
        for name in _unknown(text, names):
            mended_env = {**env, variable: _mended(text, name, names)}
            _refuse(f"env.{variable}", name, names, {"env": mended_env}, refuse)


def _refuse(
    field: str, name: str, names: Sequence[str], mended: Mapping[str, Any], refuse: Refuse
) -> None:
    sentence = Message(
        "{%(name)s} is no parameter: use %(names)s, or write {{%(name)s}} to keep the braces",
        name=name,
        names=", ".join(f"{{{each}}}" for each in names),
    )
    refuse(field, ProblemCode.COMBINATION, sentence, mended)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _BRACED.sub(lambda match: f"{{{match[1]}}}" if match[1] else values[match[2]], text)


def _unknown(text: str, names: Sequence[str]) -> Iterator[str]:
    found = (match[2] for match in _BRACED.finditer(text) if match[2])
    return (name for name in dict.fromkeys(found) if name not in names)


def _mended(text: str, name: str, names: Sequence[str]) -> str:
    """With the parameter that was probably meant, else with the braces kept."""
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return text.replace(f"{{{name}}}", f"{{{near[0]}}}" if near else f"{{{{{name}}}}}")
