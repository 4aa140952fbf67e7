"""Read services: those that a user may see, what their copies do, how busy they are."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone

from portal.accounts.models import User
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.job_services.durations import counts_sum, percentile_ms
from portal.job_services.models import JobService, JobServiceQuerySet, ServiceCopy, ServiceLoad
from portal.jobs.models import Replica
from portal.jobs.selectors import may_cancel_work
from portal.tunnel.streams import Target
from scheduler.core.model.states import JobStatus

LABEL = re.compile(r"S-([1-9][0-9]{0,17})")
# A process reports every second while it has calls. One that is silent for so long has none.
LOAD_SECONDS = 10
# Over which durations are counted.
WINDOW_SECONDS = 60
SHOWN_ENDED = 5


@dataclass(frozen=True, slots=True)
class CopyRow:
    """A copy, and the status that people read."""

    copy: ServiceCopy
    status: str
    """ready, leaving, or else that of its job."""


@dataclass(frozen=True, slots=True)
class ServiceBusyness:
    """What all web processes together report."""

    waiting: int = 0
    open_calls: int = 0
    calls_per_second: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    errors: int = 0
    """Of the last minute."""


@dataclass(frozen=True, slots=True)
class ServiceRoute:
    """Where the calls of a service go."""

    targets: Mapping[int, Target]
    """Where its copies take calls, by the keys of their jobs."""
    canary: int = 0
    """The key of the service that gets some of them; 0: none does."""
    canary_percent: int = 0


def services_visible_to(user: User) -> Any:
    rows = JobService.objects.visible_to(user).live()
    return rows.select_related("project", "owner")


def service_visible(user: User, ref: str) -> JobService:
    """One service by "S-5", also one that has ended. Raises Refused(not_found); foreign and unknown
    read the same."""
    match = LABEL.fullmatch(ref)
    rows = JobService.objects.visible_to(user).select_related("project", "owner")
    row: JobService | None = rows.filter(pk=int(match[1])).first() if match else None
    if row is None:
        sentence = "This service does not exist, or you may not see it"
        raise Refused(ErrorCode.NOT_FOUND, sentence)
    return row


def may_change(user: User, service: JobService) -> bool:
    return may_cancel_work(user, owner=service.owner_id, project=service.project_id)


def may_change_request(user: User, service: JobService) -> bool:
    """Whether the user may change what it runs, which has its owner's secrets; nobody else's
    versions may take their place either."""
    return user.pk == service.owner_id


def possible_canaries(service: JobService) -> JobServiceQuerySet:
    """Services of its owner and project to which calls of it may go: those that have no canary
    themselves and are none of another service. None if it is a canary itself."""
    live = JobService.objects.live()
    others = live.exclude(pk=service.pk).exclude(canary=None)
    if others.filter(canary=service).exists():
        return live.none()
    rows = live.filter(owner=service.owner_id, project=service.project_id, canary=None)
    return rows.exclude(pk=service.pk).exclude(pk__in=others.values("canary"))


def copy_rows(service: JobService) -> list[CopyRow]:
    """The open copies, the oldest first, and after them the last few that have ended."""
    rows = ServiceCopy.objects.filter(service=service).select_related("job")
    ended = list(rows.exclude(ended_at=None).order_by("-ended_at")[:SHOWN_ENDED])
    ready = ready_jobs([service.pk])
    return [CopyRow(copy, _status(copy, ready)) for copy in [*rows.open().order_by("id"), *ended]]


def ready_jobs(services: Collection[int]) -> dict[int, set[int]]:
    """By service: the keys of the jobs that take calls."""
    found: dict[int, set[int]] = {service: set() for service in services}
    for service, job in _ready_replicas(services).values_list(
        "attempt__job__service_copy__service", "attempt__job"
    ):
        found[service].add(job)
    return found


def ready_targets(services: Collection[int]) -> dict[int, dict[int, Target]]:
    """By service: where its copies take calls, by the keys of their jobs. One query."""
    found: dict[int, dict[int, Target]] = {service: {} for service in services}
    rows = _ready_replicas(services).values_list(
        "attempt__job__service_copy__service",
        "attempt__job",
        "node",
        "attempt",
        "attempt__job__service_copy__port",
    )
    for service, job, node, attempt, port in rows:
        found[service][job] = Target(node, attempt, 0, port)
    return found


def service_routes(services: Collection[int]) -> dict[int, ServiceRoute]:
    """Of these and of their canaries. Two queries."""
    rows = JobService.objects.filter(pk__in=services, canary_percent__gt=0).exclude(canary=None)
    splits = {
        pk: (canary or 0, percent)
        for pk, canary, percent in rows.values_list("pk", "canary", "canary_percent")
    }
    targets = ready_targets({*services, *(canary for canary, _ in splits.values())})
    return {key: ServiceRoute(each, *splits.get(key, (0, 0))) for key, each in targets.items()}


def service_with_canary(canary: JobService) -> JobService | None:
    """The service that gives this one some of its calls."""
    return JobService.objects.live().filter(canary=canary).first()


def _ready_replicas(services: Collection[int]) -> Any:
    return Replica.objects.first_of_running_jobs().filter(
        attempt__job__service_copy__service__in=services,
        attempt__job__service_copy__leaves_at=None,
        attempt__job__service_copy__ended_at=None,
        attempt__job__service_copy__ready_attempt=F("attempt"),
    )


def current_loads(services: Collection[int], now: datetime) -> list[ServiceLoad]:
    """Of processes that report."""
    rows = ServiceLoad.objects.filter(service__in=services)
    return list(rows.filter(reported_at__gt=now - timedelta(seconds=LOAD_SECONDS)))


def busyness_of(services: Collection[int]) -> dict[int, ServiceBusyness]:
    """By key of the service. One query."""
    now = timezone.now()
    recent = ServiceLoad.objects.filter(
        service__in=services, reported_at__gt=now - timedelta(seconds=WINDOW_SECONDS)
    )
    by_service: dict[int, list[ServiceLoad]] = {service: [] for service in services}
    for load in recent:
        by_service[load.service_id].append(load)
    return {service: _busyness(loads, now) for service, loads in by_service.items()}


def _busyness(loads: list[ServiceLoad], now: datetime) -> ServiceBusyness:
    since = now - timedelta(seconds=LOAD_SECONDS)
    present = [load for load in loads if load.reported_at > since]
    counts = counts_sum(load.durations for load in loads)
    return ServiceBusyness(
        waiting=sum(load.waiting for load in present),
        open_calls=sum(sum(load.open_calls.values()) for load in present),
        calls_per_second=sum(counts) / WINDOW_SECONDS,
        p50_ms=percentile_ms(counts, 0.5),
        p99_ms=percentile_ms(counts, 0.99),
        errors=sum(load.errors for load in loads),
    )


def _status(copy: ServiceCopy, ready: dict[int, set[int]]) -> str:
    if copy.job_id in ready[copy.service_id]:
        return "ready"
    if copy.leaves_at and not copy.ended_at:
        return "leaving"
    return str(JobStatus(copy.job.status))
