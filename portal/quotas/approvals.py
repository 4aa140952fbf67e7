"""Which jobs need an approval, by the thresholds of their project."""

from typing import Any

from agents.contract.message import Message
from agents.contract.units import SECONDS_PER_HOUR, as_gpus
from portal.accounts.models import Project
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import Priority
from scheduler.core.request.quantities import write_seconds


def approval_needed(
    project: Project, *, units: int, seconds: int, priority: Priority
) -> Reason | None:
    """Why a job of `units` for at most `seconds` needs an approval, or None.

    The sentence names the first threshold that is exceeded: size, time, size x time, priority. The
    evidence has all of them.
    """
    unit_seconds = units * seconds
    exceeded: list[tuple[Message, dict[str, Any]]] = []

    def add(key: str, evidence: dict[str, Any], **values: str) -> None:
        exceeded.append((make_message(f"approval.{key}", project=project.slug, **values), evidence))

    if (limit := project.approval_units) is not None and units > limit:
        evidence = {"needed_units": units, "approval_units": limit}
        add("units", evidence, gpus=as_gpus(limit), needed=as_gpus(units))
    if (limit := project.approval_seconds) is not None and seconds > limit:
        evidence = {"time_limit_seconds": seconds, "approval_seconds": limit}
        add("time", evidence, limit=_time(limit), needed=_time(seconds))
    if (limit := project.approval_unit_seconds) is not None and unit_seconds > limit:
        evidence = {"needed_unit_seconds": unit_seconds, "approval_unit_seconds": limit}
        add("gpu_hours", evidence, hours=_hours(limit), needed=_hours(unit_seconds))
    if project.approval_high and priority is Priority.HIGH:
        add("high", {"priority": str(priority)})
    if not exceeded:
        return None
    evidence = {name: value for _, each in exceeded for name, value in each.items()}
    first = exceeded[0][0]
    return Reason(ReasonCode.APPROVAL, first, evidence, make_message("unblocks.approved"))


def _time(seconds: int) -> str:
    return write_seconds(seconds) or "0s"


def _hours(unit_seconds: int) -> str:
    return as_gpus(-(-unit_seconds // SECONDS_PER_HOUR))
