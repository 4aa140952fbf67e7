"""The planner's policy: one row, validated; its history is in the audit trail."""

import math
from dataclasses import fields
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from agents.contract.message import Message
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.database.kept_queries import KeptSelect
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.live.bell import ring_plan
from portal.quotas.models import PlannerPolicy
from scheduler.core.model.policy import (
    BackfillMode,
    OrderMode,
    Policy,
    PreemptionMode,
    QuotaPreemption,
)

ENUM_OPTIONS = {
    "order": OrderMode,
    "backfill": BackfillMode,
    "preemption": PreemptionMode,
    "quota_preemption": QuotaPreemption,
}
# Options of Policy that keep their defaults and cannot be set. Every other one has a column.
INTERNAL_OPTIONS: frozenset[str] = frozenset()
POLICY_OPTIONS = tuple(f.name for f in fields(Policy) if f.name not in INTERNAL_OPTIONS)
BOOLEAN_OPTIONS = frozenset(f.name for f in fields(Policy) if isinstance(f.default, bool))
MAX_VALUES = {"reservations": 1_000, "hysteresis": 100, "moves": 8}
DEFAULT_MAX_VALUE = 10 * 366 * 86_400


def current_policy() -> Policy:
    """The stored policy; the defaults if it was never changed."""
    row = next(iter(_POLICY.rows()), None) or PlannerPolicy()
    return Policy(**{name: _value(name, getattr(row, name)) for name in POLICY_OPTIONS})


_POLICY = KeptSelect(lambda: PlannerPolicy.objects.filter(pk=1))


def policy_set(*, actor: str, version: int | None = None, **options: Any) -> PlannerPolicy:
    """Change the given options. `version`: the one that the caller has read; 1 before any change.

    Raises Refused(policy_invalid, version_stale).
    """
    with transaction.atomic():
        PlannerPolicy.objects.get_or_create(pk=1)
        row = PlannerPolicy.objects.select_for_update().get(pk=1)
        if version is not None and version != row.version:
            sentence = "The policy changed since you read it. Read it again"
            raise Refused(ErrorCode.VERSION_STALE, sentence)
        before = {name: getattr(row, name) for name in options if name in POLICY_OPTIONS}
        for name, value in options.items():
            _require_valid(name, value)
            setattr(row, name, value)
        row.version += 1
        _save(row)
        audit_record(
            actor=actor,
            action=AuditAction.POLICY_SET,
            noun="policy",
            noun_id=row.pk,
            before=before,
            after={name: getattr(row, name) for name in options},
        )
        ring_plan()
    return row


def _require_valid(name: str, value: Any) -> None:
    if name not in POLICY_OPTIONS:
        sentence = Message(
            "There is no option %(name)s. The options are: %(options)s",
            name=repr(name),
            options=", ".join(POLICY_OPTIONS),
        )
        raise Refused(ErrorCode.POLICY_INVALID, sentence, name)
    if name in ENUM_OPTIONS:
        return
    if name in BOOLEAN_OPTIONS:
        if not isinstance(value, bool):
            raise Refused(
                ErrorCode.POLICY_INVALID, Message("%(name)s must be true or false", name=name), name
            )
        return
    max_value = MAX_VALUES.get(name, DEFAULT_MAX_VALUE)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value <= max_value:
        sentence = Message(
            "%(name)s must be a number from 0 to %(most)s", name=name, most=max_value
        )
        raise Refused(ErrorCode.POLICY_INVALID, sentence, name)


def _save(row: PlannerPolicy) -> None:
    """Save; the model validates words, types and bounds."""
    try:
        row.full_clean()
    except ValidationError as error:
        name, sentences = next(iter(error.message_dict.items()))
        field = name if name in POLICY_OPTIONS else ""
        raise Refused(ErrorCode.POLICY_INVALID, " ".join(sentences), field) from error
    row.save()


def _value(name: str, stored: Any) -> Any:
    return ENUM_OPTIONS[name](stored) if name in ENUM_OPTIONS else stored
