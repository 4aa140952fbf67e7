"""How many examples a generated test tries: a fourth with `make test`, all with `make test-slow`.

The fourth is that of a Hypothesis profile, so `pytest --hypothesis-profile=full` tries all as well.
The examples are the same ones in each run.
"""

from typing import Any

import pytest
from hypothesis import settings

# Of a test that asks for no number.
FULL, QUICK = 100, 25
FEWEST = 3


def register_profiles() -> None:
    settings.register_profile("full", settings.get_profile("default"), max_examples=FULL)
    settings.register_profile("quick", settings.get_profile("default"), max_examples=QUICK)
    settings.load_profile("quick")


def share_of(count: int) -> int:
    """How many of `count` examples are tried with the profile of this run."""
    return max(FEWEST, count * settings().max_examples // FULL)


def examples(count: int, **options: Any) -> settings:
    """Settings of a test that tries `count` examples with all of them."""
    return settings(max_examples=share_of(count), deadline=None, derandomize=True, **options)


def seeds(count: int) -> list[Any]:
    """Parameters of a test that makes its world of a seed: all but the first fourth are slow."""
    quick = count * QUICK // FULL
    slow = (pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, count))
    return [*range(quick), *slow]


def first_quick(*values: Any) -> list[Any]:
    """Parameters that are much alike: all but the first are slow."""
    rest = (value if isinstance(value, tuple) else (value,) for value in values[1:])
    return [values[0], *(pytest.param(*each, marks=pytest.mark.slow) for each in rest)]
