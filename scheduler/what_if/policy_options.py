"""Reads one option of the planner's policy."""

from dataclasses import fields
from enum import StrEnum
from typing import Any

from agents.contract.message import Message
from scheduler.core.model.policy import Policy
from scheduler.what_if.errors import ChangeRefusedError, list_names, require

# The planner divides by these or counts down from them.
AT_LEAST_1 = ("hysteresis", "patience_seconds", "bypass_limit", "half_life_seconds")
MAX_NUMBER = 10 * 366 * 86_400


def policy_option(policy: Policy, name: str, value: Any) -> Any:
    """`value` with the type of the option's present value. Raises ChangeRefusedError."""
    names = [field.name for field in fields(Policy)]
    if name not in names:
        unknown = Message(
            "There is no option %(name)s. %(known)s", name=repr(name), known=list_names(names)
        )
        raise ChangeRefusedError(unknown, "name")
    present = getattr(policy, name)
    if isinstance(present, StrEnum):
        words = [str(word) for word in type(present)]
        choices = Message("%(name)s is one of %(words)s", name=name, words=", ".join(words))
        require(value in words, choices, "value")
        return type(present)(value)
    if isinstance(present, bool):
        require(isinstance(value, bool), Message("%(name)s is true or false", name=name), "value")
        return value
    is_whole = isinstance(present, int)
    minimum = 1 if name in AT_LEAST_1 else 0
    is_valid = isinstance(value, int if is_whole else (int, float)) and not isinstance(value, bool)
    limits = {"name": name, "least": minimum, "most": MAX_NUMBER}
    message = (
        Message("%(name)s is a whole number from %(least)s to %(most)s", **limits)
        if is_whole
        else Message("%(name)s is a number from %(least)s to %(most)s", **limits)
    )
    require(is_valid and minimum <= value <= MAX_NUMBER, message, "value")
    return value
