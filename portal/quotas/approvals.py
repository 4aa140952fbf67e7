"""Which jobs an admin approves first: the thresholds of a project are compared here only."""

from typing import Any

from agents.contract.units import SECONDS_PER_HOUR, as_gpus
from portal.accounts.models import Project
from scheduler.core.model.message import Message, make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import Priority
from scheduler.core.request.quantities import write_seconds


def approval_needed(
    project: Project, *, units: int, seconds: int, priority: Priority
) -> Reason | None:
    """Why a job that holds `units` for at most `seconds` waits for an admin, or None.

    The sentence names the first threshold that it is above: size, time, size x time, priority. The
    evidence has all of them, for who decides."""
    used = units * seconds
    above: list[tuple[Message, dict[str, Any]]] = []

    def note(key: str, evidence: dict[str, Any], **values: str) -> None:
        above.append((make_message(f"approval.{key}", project=project.slug, **values), evidence))

    if (most := project.approval_units) is not None and units > most:
        evidence = {"needed_units": units, "approval_units": most}
        note("units", evidence, gpus=as_gpus(most), needed=as_gpus(units))
    if (most := project.approval_seconds) is not None and seconds > most:
        evidence = {"time_limit_seconds": seconds, "approval_seconds": most}
        note("time", evidence, limit=_time(most), needed=_time(seconds))
    if (most := project.approval_unit_seconds) is not None and used > most:
        evidence = {"needed_unit_seconds": used, "approval_unit_seconds": most}
        note("gpu_hours", evidence, hours=_hours(most), needed=_hours(used))
    if project.approval_high and priority is Priority.HIGH:
        note("high", {"priority": str(priority)})
    if not above:
        return None
    whole = {name: value for _, evidence in above for name, value in evidence.items()}
    return Reason(ReasonCode.APPROVAL, above[0][0], whole, make_message("unblocks.approved"))


def _time(seconds: int) -> str:
    return write_seconds(seconds) or "0s"


def _hours(unit_seconds: int) -> str:
    return as_gpus(-(-unit_seconds // SECONDS_PER_HOUR))
