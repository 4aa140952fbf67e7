"""Reads one option of the planner's policy."""

from dataclasses import fields
from enum import StrEnum
from typing import Any

from scheduler.core.model.policy import Policy
from scheduler.what_if.errors import ChangeRefusedError, list_names, require

# The planner divides by these or counts down from them.
AT_LEAST_1 = ("hysteresis", "patience_seconds", "bypass_limit", "half_life_seconds")
MAX_NUMBER = 10 * 366 * 86_400


def policy_option(policy: Policy, name: str, value: Any) -> Any:
    """`value` with the type of the option's present value. Raises ChangeRefusedError."""
    names = [field.name for field in fields(Policy)]
    if name not in names:
        raise ChangeRefusedError(f"There is no option {name!r}. {list_names(names)}", "name")
    present = getattr(policy, name)
    if isinstance(present, StrEnum):
        words = [str(word) for word in type(present)]
        require(value in words, f"{name} is one of {', '.join(words)}", "value")
        return type(present)(value)
    if isinstance(present, bool):
        require(isinstance(value, bool), f"{name} is true or false", "value")
        return value
    is_whole = isinstance(present, int)
    minimum = 1 if name in AT_LEAST_1 else 0
    is_valid = isinstance(value, int if is_whole else (int, float)) and not isinstance(value, bool)
    word = "a whole number" if is_whole else "a number"
    sentence = f"{name} is {word} from {minimum} to {MAX_NUMBER}"
    require(is_valid and minimum <= value <= MAX_NUMBER, sentence, "value")
    return value
