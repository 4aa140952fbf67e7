"""Audit entries for people: who changed what, when, and from which value to which."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import pgettext

from agents.contract.moments import write_moment
from agents.contract.units import SECONDS_PER_HOUR, as_gpus
from portal.accounts.models import Project
from portal.audit.models import AuditEntry
from portal.audit.selectors import audit_trail

# The nouns whose audit entries make up a project's history.
NOUNS = ("quota", "budget", "limit_request", "project", "image_policy", "template")
MAX_VALUE_LENGTH = 120
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One audit entry."""

    at: datetime
    actor: str
    action: str
    noun: str
    noun_id: str
    project: str
    # Field, old value and new value.
    changes: tuple[tuple[str, str, str], ...]
    # Shown to platform admins only.
    address: str = ""
    request_id: str = ""
    occurrences: int = 1


def project_history(project: Project, limit: int = 50) -> list[AuditLine]:
    """The newest entries first."""
    return audit_lines(audit_trail().filter(project=project, noun__in=NOUNS)[:limit])


def audit_lines(entries: Iterable[AuditEntry] | QuerySet[AuditEntry]) -> list[AuditLine]:
    return [
        AuditLine(
            at=row.at,
            actor=row.actor,
            action=row.action,
            noun=pgettext("audit noun", row.noun.replace("_", " ")),
            noun_id=row.noun_id,
            project=row.project.slug if row.project else "",
            changes=field_changes(row.before, row.after),
            address=row.address,
            request_id=row.request_id,
            occurrences=row.occurrences,
        )
        for row in entries
    ]


def field_changes(
    before: dict[str, Any], after: dict[str, Any]
) -> tuple[tuple[str, str, str], ...]:
    """The fields that differ; all of them if the entry has only a state before or after."""
    before, after = _flat(before, after), _flat(after, before)
    names = list(dict.fromkeys((*before, *after)))
    return tuple(
        (_field_label(name), _value(name, before.get(name)), _value(name, after.get(name)))
        for name in names
        if not (name in before and name in after and before[name] == after[name])
    )


def _flat(facts: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Flatten the objects that both sides have, so that they are compared key by key."""
    flat: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, dict) and isinstance(others.get(name), dict):
            flat |= {f"{name} {key}": part for key, part in value.items()}
        else:
            flat[name] = value
    return flat


def _field_label(name: str) -> str:
    """In the reader's language. Of an object's part ("request image") the object is translated; so
    are no fields of the Django admin, which may be any column."""
    field, _space, part = name.partition(" ")
    return f"{pgettext('audit field', field.replace('_', ' '))} {part}".rstrip()


def _value(name: str, value: Any) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        if name.endswith("unit_seconds"):
            return f"{as_gpus(-(-value // SECONDS_PER_HOUR))} GPU-h"
        if name.endswith("_units"):
            return f"{as_gpus(value)} GPU"
    if isinstance(value, list):
        text = ", ".join(map(str, value))
    elif isinstance(value, dict):
        text = ", ".join(f"{key}: {part}" for key, part in value.items())
    else:
        text = str(value)
    text = TIMESTAMP.sub(_readable_time, text)
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"


def _readable_time(stored: re.Match[str]) -> str:
    """For the reader's clock."""
    return write_moment(datetime.fromisoformat(stored[0]))
