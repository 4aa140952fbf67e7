"""Choices and CHECK constraints of columns that hold a member of a StrEnum."""

from enum import StrEnum
from typing import Any

from django.db import models


def choices_from_enum(enum: type[StrEnum]) -> list[tuple[str, str]]:
    """The members as Django choices; each is its own label."""
    return [(str(member), str(member)) for member in enum]


def enum_column(
    enum: type[StrEnum], default: StrEnum, *, max_length: int = 16, **options: Any
) -> Any:
    """A column that holds a member of its enum, and that no form of Django changes. `options`: of
    the field."""
    choices = choices_from_enum(enum)
    return models.CharField(
        max_length=max_length, choices=choices, default=default, editable=False, **options
    )


def enum_check(field: str, enum: type[StrEnum], name: str) -> models.CheckConstraint:
    """A CHECK constraint: the column holds a member of its enum."""
    values = [str(member) for member in enum]
    return models.CheckConstraint(condition=models.Q(**{f"{field}__in": values}), name=name)
