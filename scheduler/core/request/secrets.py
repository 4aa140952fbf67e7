"""Reads which secrets a job has, and how it reads each: as a file, or as a variable.

In a request, a secret is its name, or "NAME:env" for a variable. {name: NAME, as: env} is the same.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agents.contract.environment import is_reserved
from agents.contract.job_secrets import MAX_SECRETS, SECRET_NAME, DesiredSecret, SecretForm
from agents.contract.message import Message
from scheduler.core.request.values import ProblemCode, Refuse

_WORD = re.compile(rf"({SECRET_NAME})(?::(file|env))?")


def read_secrets(value: Any, env: Mapping[str, str], refuse: Refuse) -> tuple[str, ...]:
    """Words in one spelling, each name once: [{"name": "A", "as": "env"}, "B:file"] -> ("A:env",
    "B"). `env`: the variables of the request, which must not have the same names."""
    if not isinstance(value, list) or len(value) > MAX_SECRETS:
        sentence = Message(
            'write a list of at most %(n)s names, such as ["HF_TOKEN", "WANDB_API_KEY:env"]',
            n=MAX_SECRETS,
        )
        refuse("secrets", ProblemCode.TYPE, sentence)
        return ()
    forms: dict[str, str] = {}
    for index, entry in enumerate(value):
        field, match = f"secrets.{index}", _WORD.fullmatch(_word(entry))
        if match is None:
            refuse(field, ProblemCode.VALUE, 'write a name, or "NAME:env" for a variable')
            continue
        name, form = match[1], match[2] or str(SecretForm.FILE)
        if is_reserved(name):
            sentence = Message("%(name)s is set by Tessera: remove it", name=name)
            refuse(field, ProblemCode.RESERVED, sentence)
        elif forms.setdefault(name, form) != form:
            sentence = Message("%(name)s is listed twice: keep one of them", name=name)
            refuse(field, ProblemCode.COMBINATION, sentence)
        elif form == SecretForm.ENV and name in env:
            sentence = Message("%(name)s is in env, too: remove one of them", name=name)
            refuse(field, ProblemCode.COMBINATION, sentence)
    return tuple(
        name if form == SecretForm.FILE else f"{name}:{form}" for name, form in forms.items()
    )


def secret_names(words: Iterable[str]) -> tuple[str, ...]:
    """Of the secrets of a request."""
    return tuple(word.partition(":")[0] for word in words)


def desired_secrets(words: Iterable[str]) -> tuple[DesiredSecret, ...]:
    """The secrets of a request, as a node is told of them."""
    parts = (word.partition(":") for word in words)
    return tuple(DesiredSecret(name, SecretForm(form or "file")) for name, _, form in parts)


def _word(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    if isinstance(entry, Mapping) and set(entry) <= {"name", "as"} and "name" in entry:
        return f"{entry['name']}:{entry.get('as', 'file')}"
    return ""
