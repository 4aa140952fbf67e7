"""What people do with a service: create, change, end. One transaction each, with an audit line."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.job_services.models import JobService
from portal.job_services.selectors import may_change
from portal.job_services.values import (
    GIVEN_PORTS,
    PORT_VARIABLE,
    ServiceValues,
    copy_request,
    require_name,
    require_values,
)
from portal.live.bell import ring, ring_services
from portal.submission.admission import Admission
from scheduler.core.request import RequestLimits, request_as_dict

MAX_SERVICES = 100
"""Of a project, at once."""


def service_create(
    *, actor: User, name: str, body: Any, values: ServiceValues, limits: RequestLimits
) -> JobService:
    """Keep jobs of the request `body` running from now on, as jobs of `actor`.

    Raises Refused(name_invalid, limit_invalid, path_invalid, too_many), InvalidRequest, and what
    `Admission.require_feasible` raises.
    """
    require_name(name)
    require_values(values)
    request = copy_request(body, name=name, port=values.port or GIVEN_PORTS[0], limits=limits)
    with transaction.atomic():
        project = Admission(actor).require_feasible(request).project
        _require_room(project)
        row = JobService.objects.create(
            project=project,
            owner=actor,
            name=name,
            request=_stored(request_as_dict(request), values),
            copies=values.min_copies,
            **asdict(values),
        )
        _audit(AuditAction.SERVICE_CREATE, row, actor, {}, service_facts(row))
        _ring(row)
    return row


def _require_room(project: Project) -> None:
    """The project's row is locked, so that two at once count each other. Raises
    Refused(too_many)."""
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    if JobService.objects.live().filter(project=project).count() >= MAX_SERVICES:
        sentence = Message("A project has at most %(most)s services: end one", most=MAX_SERVICES)
        raise Refused(ErrorCode.TOO_MANY_ITEMS, sentence)


def service_change(
    *,
    service: JobService,
    actor: User,
    values: ServiceValues,
    body: Any = None,
    limits: RequestLimits,
    version: int | None = None,
) -> JobService:
    """Change how it is run. With `body`, a new request: its copies are replaced by ones of it, each
    of the old ones once a new one is ready.

    Raises Refused(forbidden, not_found, version_stale) and what `service_create` raises.
    """
    require_values(values)
    with transaction.atomic():
        row = _lock(service, actor, version)
        before = service_facts(row)
        if body is not None or values.port != row.port:
            _change_request(row, actor, row.request if body is None else body, values, limits)
        for name, value in asdict(values).items():
            setattr(row, name, value)
        row.copies = min(max(row.copies, row.min_copies), row.max_copies)
        row.version += 1
        row.save()
        _audit(AuditAction.SERVICE_CHANGE, row, actor, before, service_facts(row))
        _ring(row)
    return row


def _change_request(
    row: JobService, actor: User, body: Any, values: ServiceValues, limits: RequestLimits
) -> None:
    """Raises Refused(forbidden) and what `service_create` raises."""
    if actor.pk != row.owner_id:
        sentence = (
            "Only its owner may change what a service runs: its copies have the owner's secrets"
        )
        raise Refused(ErrorCode.FORBIDDEN, sentence, "request")
    port = values.port or GIVEN_PORTS[0]
    request = copy_request(body, name=row.name, port=port, project=row.project.slug, limits=limits)
    Admission(actor).require_feasible(request)
    stored = _stored(request_as_dict(request), values)
    if stored != row.request or values.port != row.port:
        row.request, row.generation = stored, row.generation + 1
        row.failures, row.next_start_at, row.problem = 0, None, None


def service_end(*, service: JobService, actor: User, version: int | None = None) -> JobService:
    """Stop it for good: its copies finish the calls that they have, and are then cancelled. Repeats
    are harmless. Raises Refused(forbidden, not_found, version_stale)."""
    with transaction.atomic():
        row = _lock(service, actor, version, is_ended_too=True)
        if row.ended_at is None:
            row.ended_at, row.copies, row.problem = timezone.now(), 0, None
            row.version += 1
            row.save()
            _audit(AuditAction.SERVICE_END, row, actor, service_facts(row), {})
            _ring(row)
    return row


def service_facts(row: JobService) -> dict[str, Any]:
    """What an audit line says of it; no environment, which may hold tokens."""
    return {
        "name": row.name,
        "generation": row.generation,
        "image": row.request.get("image", ""),
        **asdict(values_of(row)),
    }


def values_of(row: JobService) -> ServiceValues:
    return ServiceValues(**{name: getattr(row, name) for name in ServiceValues.__slots__})


def _stored(written: Mapping[str, Any], values: ServiceValues) -> dict[str, Any]:
    """Without the app and the variable that each copy gets anew."""
    port = values.port or GIVEN_PORTS[0]
    own_app, own_variable = f"{written['name']}:{port}", (PORT_VARIABLE, str(port))
    return dict(written) | {
        "apps": [app for app in written.get("apps", ()) if app != own_app],
        "env": dict(item for item in written.get("env", {}).items() if item != own_variable),
    }


def _lock(
    service: JobService, actor: User, version: int | None, *, is_ended_too: bool = False
) -> JobService:
    if not may_change(actor, service):
        sentence = "Only its owner or a project admin may change a service"
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    rows = JobService.objects.filter(pk=service.pk).select_related("project", "owner")
    row = next(iter(rows.lock_rows()), None)
    if row is None or (row.ended_at and not is_ended_too):
        raise Refused(ErrorCode.NOT_FOUND, "This service has ended: create another one")
    if version is not None and row.version != version:
        sentence = "Somebody has changed this service meanwhile: read it again"
        raise Refused(ErrorCode.VERSION_STALE, sentence)
    return row


def _audit(
    action: AuditAction,
    row: JobService,
    actor: User,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    audit_record(
        actor=actor.username,
        action=action,
        noun="service",
        noun_id=row.label,
        project=row.project,
        before=before,
        after=after,
    )


def _ring(row: JobService) -> None:
    ring(f"service:{row.pk}")
    ring_services()
