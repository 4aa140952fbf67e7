"""The options of the planner's policy as a form: what is stored, what was typed, what differs."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _

from portal.quotas.policy_help import POLICY_GROUPS, POLICY_HELP, POLICY_LABELS
from portal.web.wording.labels import duration
from portal.web.wording.messages import message_text
from scheduler.core.model.policy import Policy
from scheduler.core.request.quantities import read_seconds, write_seconds

DEFAULTS = Policy()
SECONDS = "_seconds"


@dataclass(frozen=True, slots=True)
class PolicyField:
    """One option with its input. `kind`: choice, switch, time or number."""

    name: str
    label: str | Promise
    help: str | Promise
    kind: str
    # What the input holds, as text; a switch is on if it is not empty.
    text: str
    choices: tuple[str, ...]
    # In words: what is stored, and what it would be by itself.
    now: str
    default: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """One option that would change, in words."""

    label: str | Promise
    before: str
    after: str
    # As a what-if is told about it.
    what_if: str


def policy_groups(
    policy: Policy, typed: Mapping[str, str] | None = None, errors: Mapping[str, str] | None = None
) -> list[tuple[str | Promise, list[PolicyField]]]:
    """The form, in groups; with what was typed instead of what is stored."""
    return [
        (title, [_field(policy, name, typed, (errors or {}).get(name, "")) for name in names])
        for title, names in POLICY_GROUPS
    ]


def read_policy(typed: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values that were typed, and what is wrong with the others, each by option."""
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name in (field.name for field in fields(Policy)):
        try:
            values[name] = _read(name, typed.get(name, "").strip())
        except ValueError as wrong:
            errors[name] = _sentence(wrong)
    return values, errors


def policy_changes(policy: Policy, values: Mapping[str, Any]) -> list[PolicyChange]:
    return [
        PolicyChange(
            POLICY_LABELS[name],
            value_text(name, getattr(policy, name)),
            value_text(name, value),
            f"{name}={str(value).lower() if isinstance(value, bool) else value}",
        )
        for name, value in values.items()
        if value != getattr(policy, name)
    ]


def value_text(name: str, value: Any) -> str:
    """An option's value for people."""
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if name.endswith(SECONDS):
        return duration(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _field(policy: Policy, name: str, typed: Mapping[str, str] | None, error: str) -> PolicyField:
    value, default = getattr(policy, name), getattr(DEFAULTS, name)
    return PolicyField(
        name=name,
        label=POLICY_LABELS[name],
        help=POLICY_HELP[name],
        kind=_kind(name, default),
        text=_input_text(name, value) if typed is None else typed.get(name, ""),
        choices=tuple(map(str, type(default))) if isinstance(default, StrEnum) else (),
        now=value_text(name, value),
        default=value_text(name, default),
        error=error,
    )


def _kind(name: str, default: Any) -> str:
    if isinstance(default, StrEnum):
        return "choice"
    if isinstance(default, bool):
        return "switch"
    return "time" if name.endswith(SECONDS) else "number"


def _input_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else ""
    if name.endswith(SECONDS):
        return write_seconds(value) or "0s"
    return str(value)


def _read(name: str, text: str) -> Any:
    """Raises ValueError. Bounds are checked where the policy is set."""
    default = getattr(DEFAULTS, name)
    if isinstance(default, bool):
        return text == "on"
    if isinstance(default, StrEnum):
        return type(default)(text)
    if name.endswith(SECONDS):
        return read_seconds(int(text) if text.isascii() and text.isdecimal() else text)
    return type(default)(text)


def _sentence(wrong: ValueError) -> str:
    message = wrong.args[0] if wrong.args else ""
    if isinstance(message, str):
        return _("Enter a number, or a time such as 30m, 12h or 7d")
    return message_text(message)
