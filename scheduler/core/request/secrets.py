"""Reads which secrets a job has, and how it reads each: as a file, or as a variable.

In a request, a secret is its name, "NAME:env" for a variable, or "NAME:git" for what its node alone
reads to fetch the code of the job. {name: NAME, as: env} is the same as "NAME:env".
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents.contract.environment import is_reserved
from agents.contract.git_source import is_git_source, read_git_source
from agents.contract.job_secrets import MAX_SECRETS, SECRET_NAME, DesiredSecret, SecretForm
from agents.contract.message import Message
from scheduler.core.request.values import ProblemCode, Refuse

_WORD = re.compile(rf"({SECRET_NAME})(?::(file|env|git))?")


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
            sentence = Message(
                'write a name, "NAME:env" for a variable, or "NAME:git" to fetch code from a '
                "repository"
            )
            refuse(field, ProblemCode.VALUE, sentence)
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


def git_key(words: Iterable[str]) -> str:
    """The name of the secret by which the code is fetched; empty without one."""
    ending = f":{SecretForm.GIT}"
    return next((word.removesuffix(ending) for word in words if word.endswith(ending)), "")


def refuse_git_combination(code: str, words: Sequence[str], refuse: Refuse) -> None:
    """A secret for git goes with a repository, and ssh with such a secret."""
    keys = [word for word in words if word.endswith(f":{SecretForm.GIT}")]
    is_git = is_git_source(code)
    if len(keys) > 1:
        refuse("secrets", ProblemCode.COMBINATION, "name one secret with :git, and no more")
    if keys and not is_git:
        sentence = (
            "a secret with :git fetches code from a repository: name one under code, such as "
            "git+https://host/team/project.git"
        )
        refuse("secrets", ProblemCode.COMBINATION, sentence)
    if is_git and not keys and read_git_source(code).scheme == "ssh":
        sentence = "ssh needs a deploy key: name the secret that has it, such as DEPLOY_KEY:git"
        refuse("secrets", ProblemCode.COMBINATION, sentence)


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
