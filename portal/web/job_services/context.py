"""The template contexts of the pages of services, in a fixed number of queries."""

import json
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from agents.contract.message import read_message
from portal.accounts.models import User
from portal.apps.access import may_call
from portal.apps.hosts import AppName, app_host
from portal.job_services.models import JobService
from portal.job_services.ready_requests import ready_service_of
from portal.job_services.selectors import (
    busyness_of,
    copy_rows,
    may_change,
    may_change_request,
    possible_canaries,
    ready_jobs,
    service_with_canary,
    services_visible_to,
)
from portal.web.wording.messages import message_text


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """A line of the list."""

    service: JobService
    ready: int


def services_context(user: User) -> dict[str, Any]:
    rows = list(services_visible_to(user))
    ready = ready_jobs([row.pk for row in rows])
    return {"rows": [ServiceRow(row, len(ready[row.pk])) for row in rows]}


def service_context(request: HttpRequest, user: User, service: JobService) -> dict[str, Any]:
    copies, problem = copy_rows(service), read_message(service.problem)
    ready = sum(row.status == "ready" for row in copies)
    return _canary_context(user, service) | {
        "service": service,
        "copies": copies,
        "ready": ready,
        "problem": message_text(problem) if problem else "",
        "host": service_host(request, service),
        "call": _example_call(request, service),
        "may_call": service.ended_at is None and may_call(user, service),
        "may_change": service.ended_at is None and may_change(user, service),
    }


def _canary_context(user: User, service: JobService) -> dict[str, Any]:
    """How busy the service is, and how busy beside it the one that gets some of its calls."""
    canary, problem = service.canary, read_message(service.canary_problem)
    both = [service.pk, *([canary.pk] if canary else [])]
    busyness = busyness_of(both)
    may_choose = service.ended_at is None and may_change_request(user, service)
    return {
        "busyness": busyness[service.pk],
        "canary": canary,
        "canary_ready": len(ready_jobs([canary.pk])[canary.pk]) if canary else 0,
        "stable_percent": 100 - service.canary_percent,
        "both_busyness": [busyness[key] for key in both],
        "canary_problem": message_text(problem) if problem else "",
        "canary_of": service_with_canary(service),
        "may_choose_canary": may_choose,
        "possible_canaries": list(possible_canaries(service)) if may_choose else [],
    }


def service_host(request: HttpRequest, service: JobService) -> str:
    """With the port by which the portal is called; empty where the portal serves no apps."""
    domain = settings.PLATFORM.apps_domain
    _, colon, port = request.get_host().rpartition(":")
    name = AppName(0, service.name, service.pk)
    return app_host(name, domain, port if colon else "") if domain else ""


def _example_call(request: HttpRequest, service: JobService) -> str:
    """A command line that calls it; empty where the portal serves no apps."""
    host = service_host(request, service)
    if not host:
        return ""
    ready = ready_service_of(service.request.get("image", ""))
    address = f"{request.scheme}://{host}"
    lines = [f"curl {address}{ready.call_path if ready else '/'}"]
    lines.append('-H "Authorization: Bearer $TESSERA_APP_TOKEN"')
    if ready and ready.call_body:
        lines.append('-H "Content-Type: application/json"')
        lines.append(f"-d '{json.dumps(json.loads(ready.call_body))}'")
    return " \\\n  ".join(lines)
