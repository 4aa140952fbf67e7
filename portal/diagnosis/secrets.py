"""Secrets in what a log says: a quoted line must not carry them further than the log. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agents.contract.message import Message
from portal.diagnosis.log_text import FailureLine

MASK = "***"
# Shorter values are words, and would hide half of a line.
MIN_SECRET_LENGTH = 8
# Well-known forms of tokens, and what follows the name of a secret. No repetition inside another.
_FORMS = re.compile(
    r"\b(?:hf_|ghp_|gho_|github_pat_|glpat-|sk-|xox[bpas]-|AKIA|eyJ)[A-Za-z0-9_\-.]{12,400}"
    r"|(?<=://)[^\s/@:]{1,100}:[^\s/@]{1,200}(?=@)"
    r"|(?<=[Bb]earer )[A-Za-z0-9_\-.=+/]{8,400}"
)
_NAMED = re.compile(
    r"((?:token|password|passwd|secret|api_?key|access_?key|credential)s?['\"]?\s{0,3}[:=]\s{0,3}"
    r"['\"]?)([^\s'\",;&]{4,400})",
    re.IGNORECASE,
)


def secret_values(variables: Mapping[str, str]) -> list[str]:
    """The values of a job's environment that may be secrets, each line of them: the long ones
    first."""
    lines = {line for value in variables.values() for line in str(value).splitlines()}
    values = [each for each in lines if len(each) >= MIN_SECRET_LENGTH and not each.isdecimal()]
    return sorted(values, key=lambda value: (-len(value), value))


def masked_lines(lines: Iterable[FailureLine], secrets: Sequence[str]) -> list[FailureLine]:
    """The lines without these values."""
    return [replace(line, text=_without(line.text, secrets)) for line in lines]


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these values, and without what looks like a secret."""
    return _NAMED.sub(rf"\g<1>{MASK}", _FORMS.sub(MASK, _without(text, secrets)))


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def masked_message(message: Message, secrets: Iterable[str] = ()) -> Message:
    """The message with its words masked."""
    secrets = list(secrets)
    values = {
        name: masked(value, secrets) if isinstance(value, str) else value
        for name, value in message.values.items()
    }
    return Message(message.key, **values)
