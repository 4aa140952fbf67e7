"""The form of a new service, and those that change how many copies there are, and its canary."""

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from portal.errors import Refused
from portal.job_services.ready_requests import READY_SERVICES
from portal.job_services.values import CanaryValues, ServiceValues
from portal.web.wording.messages import refusal_text, request_errors_text
from scheduler.core.request import InvalidRequest

NUMBERS = ("min_copies", "max_copies", "calls_per_copy", "cool_down_seconds", "port")
TEXTS = ("name", "project", "health_path", "request")
CANARY = ("canary", "canary_percent")
NUMBER = re.compile(r"[0-9]{1,6}")
MAX_LENGTH = 65_536
EXAMPLE_REQUEST = """image: registry/server:1.0
command: [python, server.py]
device: {gpus: 1}
time_limit: 24h
"""


@dataclass(slots=True)
class ServiceForm:
    """What was typed and what is wrong with it, by field."""

    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)

    def service_values(self, present: ServiceValues) -> ServiceValues | None:
        """With what was typed in place of the present ones; None if a number is none."""
        numbers: dict[str, Any] = {}
        for name in NUMBERS:
            text = self.values.get(name)
            if text is None:
                continue
            if not NUMBER.fullmatch(text):
                self.errors[name] = _("Enter a whole number")
            else:
                numbers[name] = int(text)
        if self.errors:
            return None
        path = self.values.get("health_path", present.health_path)
        return ServiceValues(**asdict(present) | numbers | {"health_path": path})

    def canary_values(self) -> CanaryValues | None:
        """None if the form was another one, or the percentage is no number."""
        percent = self.values.get("canary_percent")
        if percent is None:
            return None
        if not NUMBER.fullmatch(percent):
            self.errors["canary_percent"] = _("Enter a whole number")
            return None
        label = self.values.get("canary", "")
        return CanaryValues(label, int(percent) if label else 0)

    def add_refusal(self, refused: Refused | InvalidRequest) -> int:
        """Put it beside its field. Returns the HTTP status."""
        if isinstance(refused, InvalidRequest):
            self.errors["request"] = request_errors_text(refused)
            return 400
        name = refused.field if refused.field in (*NUMBERS, *TEXTS, *CANARY) else "request"
        self.errors[name] = refusal_text(refused)
        return refused.status


def new_form(template: str, project: str) -> ServiceForm:
    """As it is shown first. `template`: one of READY_SERVICES, or empty."""
    present = ServiceValues()
    values = {name: str(getattr(present, name)) for name in NUMBERS}
    values |= {"name": "", "project": project, "health_path": "/", "request": EXAMPLE_REQUEST}
    if ready := READY_SERVICES.get(template):
        values |= {
            "name": template,
            "port": str(ready.port),
            "health_path": ready.health_path,
            "request": ready.request,
        }
    return ServiceForm(values)


def typed_form(request: HttpRequest) -> ServiceForm:
    names = [name for name in (*NUMBERS, *TEXTS, *CANARY) if name in request.POST]
    values = {name: request.POST[name][:MAX_LENGTH] for name in names}
    return ServiceForm(
        {name: text if name == "request" else text.strip() for name, text in values.items()}
    )
