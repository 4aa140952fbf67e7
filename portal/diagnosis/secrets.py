"""Secrets in what a log says: a quoted line must not carry them further than the log. Pure."""

import re
from collections.abc import Iterable, Mapping

from agents.contract.message import Message

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
    """The values of a job's environment that may be secrets: the long ones first."""
    values = {str(value) for value in variables.values() if len(str(value)) >= MIN_SECRET_LENGTH}
    return sorted((v for v in values if not v.isdecimal()), key=lambda v: (-len(v), v))


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these values, and without what looks like a secret."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return _NAMED.sub(rf"\g<1>{MASK}", _FORMS.sub(MASK, text))


def masked_message(message: Message, secrets: Iterable[str] = ()) -> Message:
    """The message with its words masked."""
    secrets = list(secrets)
    values = {
        name: masked(value, secrets) if isinstance(value, str) else value
        for name, value in message.values.items()
    }
    return Message(message.key, **values)
