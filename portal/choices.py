"""Choices and CHECK constraints of columns that hold a member of a StrEnum."""

from enum import StrEnum

from django.db import models


def choices_from_enum(enum: type[StrEnum]) -> list[tuple[str, str]]:
    """The members as Django choices; each is its own label."""
    return [(str(member), str(member)) for member in enum]


def enum_check(field: str, enum: type[StrEnum], name: str) -> models.CheckConstraint:
    """A CHECK constraint: the column holds a member of its enum."""
    values = [str(member) for member in enum]
    return models.CheckConstraint(condition=models.Q(**{f"{field}__in": values}), name=name)
