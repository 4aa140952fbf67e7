"""What web processes report of the calls of services."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from portal.job_services.models import JobService, ServiceLoad
from portal.live.bell import ring_services


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Of one service in one process."""

    waiting: int
    open_calls: Mapping[int, int]
    """By the key of the job."""
    durations: Sequence[int]
    """As `durations.duration_counts` has them."""
    errors: int = 0


def loads_report(*, process: str, counts: Mapping[int, CallCounts], now: datetime) -> None:
    """Note the calls by service, and have copies started where calls wait for the first one."""
    with transaction.atomic():
        for service, each in sorted(counts.items()):
            ServiceLoad.objects.update_or_create(
                service_id=service,
                process=process,
                defaults={
                    "reported_at": now,
                    "waiting": each.waiting,
                    "open_calls": {str(job): n for job, n in each.open_calls.items()},
                    "durations": list(each.durations),
                    "errors": each.errors,
                },
            )
        if _has_none_to_come([service for service, each in counts.items() if each.waiting]):
            ring_services()


def _has_none_to_come(services: Collection[int]) -> bool:
    """Whether one of these is to have no copies."""
    return bool(services) and JobService.objects.live().filter(pk__in=services, copies=0).exists()
