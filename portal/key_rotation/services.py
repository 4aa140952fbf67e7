"""Every sealed secret of the database under the present key."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from allauth.mfa.models import Authenticator
from cryptography.fernet import InvalidToken
from django.db import transaction
from django.db.models import Model, QuerySet

from portal.job_secrets.models import JOB_SECRET_SEAL, JobSecret
from portal.registries.models import REGISTRY_SEAL, Registry
from portal.sealing import Seal
from portal.web.account.factors import FACTOR_SEAL
from portal.webhooks.models import Endpoint
from portal.webhooks.secrets import WEBHOOK_SEAL


@dataclass(slots=True)
class ResealResult:
    """Rows, by what was found."""

    current: int = 0
    """Sealed with the present key before."""
    resealed: int = 0
    """Sealed with an earlier key, and now with the present one, or to be."""
    unreadable: list[str] = field(default_factory=list)
    """Sealed with a key that this portal does not have."""


def secrets_reseal(*, dry_run: bool = False) -> ResealResult:
    """Seal all secrets with the present key. Each row is a transaction of its own, so this may be
    ended at any time and run again; rows that are done are left alone."""
    result = ResealResult()
    for rows, column, reseal in _sealed_columns():
        for pk in rows.order_by("pk").values_list("pk", flat=True):
            with transaction.atomic():
                row = rows.select_for_update().filter(pk=pk).first()
                if row is None:
                    continue
                _reseal_row(row, column, reseal, result, dry_run=dry_run)
    return result


def _sealed_columns() -> Iterator[tuple[QuerySet[Any], str, Callable[..., object]]]:
    # A webhook has a signing secret or, as a chat, an address.
    yield Endpoint.objects.exclude(sealed=""), "sealed", WEBHOOK_SEAL.reseal
    yield Endpoint.objects.exclude(sealed_url=""), "sealed_url", WEBHOOK_SEAL.reseal
    yield JobSecret.objects.all(), "sealed", JOB_SECRET_SEAL.reseal
    yield Registry.objects.all(), "sealed", REGISTRY_SEAL.reseal
    yield Authenticator.objects.all(), "data", _reseal_factor


def _reseal_row(
    row: Model,
    column: str,
    reseal: Callable[..., object],
    result: ResealResult,
    *,
    dry_run: bool,
) -> None:
    before = getattr(row, column)
    try:
        after = reseal(before)
    except InvalidToken:
        result.unreadable.append(f"{row._meta.label} {row.pk}")
        return
    if after == before:
        result.current += 1
        return
    result.resealed += 1
    if not dry_run:
        setattr(row, column, after)
        row.save(update_fields=[column])


def _reseal_factor(data: dict[str, object]) -> dict[str, object]:
    """Of an authenticator app or recovery codes; passkeys have no sealed secret."""
    return {name: _reseal_value(FACTOR_SEAL, name, value) for name, value in data.items()}


def _reseal_value(seal: Seal, name: str, value: object) -> object:
    if name in ("secret", "seed") and isinstance(value, str):
        return seal.reseal(value)
    if name == "migrated_codes" and isinstance(value, list):
        return [seal.reseal(code) for code in value]
    return value
