"""Services as rows, and rounds over them."""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from django.utils import timezone

from portal.accounts.models import Project, User
from portal.job_services.drive import service_drive
from portal.job_services.models import JobService, ServiceCopy
from portal.job_services.readiness import check_record, checks_claim
from portal.job_services.services import service_create
from portal.job_services.values import ServiceValues
from portal.submission.limits import request_limits
from tests.support.rows import a_request


def a_service(user: User, project: Project, name: str = "llm", **values) -> JobService:
    body = a_request(project, **values.pop("request", {}))
    chosen = ServiceValues(**{"health_path": "/health"} | values)
    return service_create(actor=user, name=name, body=body, values=chosen, limits=request_limits())


def a_round(service: JobService, *, seconds: float = 0) -> JobService:
    """Drive it `seconds` from now. As it is then."""
    now = timezone.now() + timedelta(seconds=seconds)
    service_drive(pk=service.pk, now=now, limits=cache(request_limits))
    service.refresh_from_db()
    return service


def copies_of(service: JobService) -> list[ServiceCopy]:
    """Those whose job has not ended."""
    rows = ServiceCopy.objects.filter(service=service).open().select_related("job")
    return list(rows.order_by("id"))


def check_all(*, is_healthy: bool = True, seconds: float = 0, most: int = 100) -> int:
    """Ask the running copies that are due then, `most` of them at once. How many there were."""
    now = timezone.now() + timedelta(seconds=seconds)
    found = checks_claim(now, most)
    for check in found:
        check_record(check=check, is_healthy=is_healthy, now=now)
    return len(found)
