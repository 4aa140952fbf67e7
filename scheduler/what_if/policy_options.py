"""One option of the planner's policy, as people write it."""

from dataclasses import fields
from enum import StrEnum
from typing import Any

from scheduler.core.model.policy import Policy
from scheduler.what_if.errors import ChangeRefusedError, list_names, require

# These are divided by or counted down from.
AT_LEAST_1 = ("hysteresis", "patience_seconds", "bypass_limit", "half_life_seconds")
MAX_NUMBER = 10 * 366 * 86_400


def policy_option(policy: Policy, name: str, value: Any) -> Any:
    """`value` as the type of the option's present one. Raises ChangeRefusedError."""
    names = [field.name for field in fields(Policy)]
    if name not in names:
        raise ChangeRefusedError(f"There is no option {name!r}. {list_names(names)}", "name")
    usual = getattr(policy, name)
    if isinstance(usual, StrEnum):
        words = [str(word) for word in type(usual)]
        require(value in words, f"{name} is one of {', '.join(words)}", "value")
        return type(usual)(value)
    if isinstance(usual, bool):
        require(isinstance(value, bool), f"{name} is true or false", "value")
        return value
    whole = isinstance(usual, int)
    least = 1 if name in AT_LEAST_1 else 0
    right = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    word = "a whole number" if whole else "a number"
    sentence = f"{name} is {word} from {least} to {MAX_NUMBER}"
    require(right and least <= value <= MAX_NUMBER, sentence, "value")
    return value
