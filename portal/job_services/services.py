"""What people do with a service: create, change, promote its canary, end. One transaction each,
with an audit line."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.audit.transitions import SYSTEM
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.job_services.models import JobService
from portal.job_services.selectors import (
    LABEL,
    may_change,
    may_change_request,
    possible_canaries,
)
from portal.job_services.values import (
    GIVEN_PORTS,
    PORT_VARIABLE,
    CanaryValues,
    ServiceValues,
    copy_request,
    require_name,
    require_percent,
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
        _audit(AuditAction.SERVICE_CREATE, row, actor.username, {}, service_facts(row))
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
    canary: CanaryValues | None = None,
    limits: RequestLimits,
    version: int | None = None,
) -> JobService:
    """Change how it is run. With `body`, a new request: its copies are replaced by ones of it, each
    of the old ones once a new one is ready. With `canary`, which other service gets some of its
    calls; calls that have begun stay where they are.

    Raises Refused(forbidden, not_found, version_stale, canary_invalid) and what `service_create`
    raises.
    """
    require_values(values)
    with transaction.atomic():
        row = _lock(service, actor, version)
        before = service_facts(row)
        if body is not None or values.port != row.port:
            _change_request(row, actor, row.request if body is None else body, values, limits)
        if canary is not None:
            _change_canary(row, actor, canary)
        _set_values(row, values)
        _audit(AuditAction.SERVICE_CHANGE, row, actor.username, before, service_facts(row))
        _ring(row)
    return row


def _set_values(row: JobService, values: ServiceValues) -> None:
    for name, value in asdict(values).items():
        setattr(row, name, value)
    row.copies = min(max(row.copies, row.min_copies), row.max_copies)
    row.version += 1
    row.save()


def _change_canary(row: JobService, actor: User, values: CanaryValues) -> None:
    """Raises Refused(forbidden, limit_invalid, canary_invalid)."""
    _require_owner(row, actor)
    require_percent(values.percent)
    match = LABEL.fullmatch(values.label)
    canary = possible_canaries(row).filter(pk=int(match[1])).first() if match else None
    if canary is None and (values.label or values.percent):
        sentence = (
            "Choose a running service of the same owner and project that neither has a canary nor "
            "is one"
        )
        raise Refused(ErrorCode.CANARY_INVALID, sentence, "canary")
    if canary != row.canary:
        row.is_canary_promoted = False
    row.canary, row.canary_percent, row.canary_problem = canary, values.percent, None
    row.canary_failures = canary.all_failures if canary else 0


def service_promote(
    *, service: JobService, actor: User, limits: RequestLimits, version: int | None = None
) -> JobService:
    """Have it run what its canary runs, by the same replacement as after any change of its request.
    The canary keeps its calls meanwhile, and ends once all copies run its request.

    Raises Refused(forbidden, not_found, version_stale, canary_invalid) and what `service_create`
    raises.
    """
    with transaction.atomic():
        row = _lock(service, actor, version)
        _require_owner(row, actor)
        if row.canary is None or row.canary.ended_at is not None:
            sentence = "This service has no canary: choose one first"
            raise Refused(ErrorCode.CANARY_INVALID, sentence, "canary")
        if row.canary.health_path != row.health_path:
            sentence = (
                "Its canary has another health path, at which the present copies may not answer: "
                "give both the same one first"
            )
            raise Refused(ErrorCode.CANARY_INVALID, sentence, "canary")
        before, canary = service_facts(row), row.canary
        values = replace(values_of(row), port=canary.port, start_seconds=canary.start_seconds)
        _change_request(row, actor, canary.request, values, limits)
        row.is_canary_promoted = True
        _set_values(row, values)
        _audit(AuditAction.SERVICE_PROMOTE, row, actor.username, before, service_facts(row))
        _ring(row)
    return row


def _require_owner(row: JobService, actor: User) -> None:
    """Raises Refused(forbidden)."""
    if not may_change_request(actor, row):
        sentence = (
            "Only its owner may change what a service runs: its copies have the owner's secrets"
        )
        raise Refused(ErrorCode.FORBIDDEN, sentence, "request")


def _change_request(
    row: JobService, actor: User, body: Any, values: ServiceValues, limits: RequestLimits
) -> None:
    """Raises Refused(forbidden) and what `service_create` raises."""
    _require_owner(row, actor)
    port = values.port or GIVEN_PORTS[0]
    request = copy_request(body, name=row.name, port=port, project=row.project.slug, limits=limits)
    Admission(actor).require_feasible(request)
    stored = _stored(request_as_dict(request), values)
    if stored != row.request or values.port != row.port:
        row.request, row.generation = stored, row.generation + 1
        # It is not the canary's any more, which goes on; to promote is to say so again.
        row.is_canary_promoted = False
        row.failures, row.next_start_at, row.problem = 0, None, None


def service_end(*, service: JobService, actor: User, version: int | None = None) -> JobService:
    """Stop it for good: its copies finish the calls that they have, and are then cancelled. Repeats
    are harmless. Raises Refused(forbidden, not_found, version_stale)."""
    with transaction.atomic():
        row = _lock(service, actor, version, is_ended_too=True)
        if row.ended_at is None:
            _end(row, actor.username)
    return row


def canary_end(*, pk: int) -> None:
    """End a promoted canary, now that its service runs its request. Nothing if it has ended, or is
    promoted no more."""
    promoted = JobService.objects.live().filter(canary=pk, is_canary_promoted=True)
    with transaction.atomic():
        for row in JobService.objects.live().filter(pk__in=promoted.values("canary")).lock_rows():
            _end(row, SYSTEM)


def _end(row: JobService, actor: str) -> None:
    _audit(AuditAction.SERVICE_END, row, actor, service_facts(row), {})
    row.ended_at, row.copies, row.problem = timezone.now(), 0, None
    row.clear_canary()
    row.version += 1
    row.save()
    _ring(row)


def service_facts(row: JobService) -> dict[str, Any]:
    """What an audit line says of it; no environment, which may hold tokens."""
    return {
        "name": row.name,
        "generation": row.generation,
        "image": row.request.get("image", ""),
        "canary": row.canary.label if row.canary else "",
        "canary_percent": row.canary_percent,
        **asdict(values_of(row)),
    }


def values_of(row: JobService) -> ServiceValues:
    return ServiceValues(**{name: getattr(row, name) for name in ServiceValues.__slots__})


def canary_values(
    row: JobService, *, label: str | None, percent: int | None
) -> CanaryValues | None:
    """Those that it has, with these in their place; None if neither is written. Another canary
    begins without calls."""
    if label is None and percent is None:
        return None
    present = row.canary.label if row.canary else ""
    chosen = present if label is None else label
    if percent is None:
        percent = row.canary_percent if chosen == present else 0
    return CanaryValues(chosen, percent)


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
    actor: str,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    audit_record(
        actor=actor,
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
