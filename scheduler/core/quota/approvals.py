"""Which requests a person must approve before they may run."""

from dataclasses import dataclass

from agents.contract.units import SECONDS_PER_HOUR, as_gpus
from scheduler.core.values import Priority


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """Thresholds; 0 = none. `units_above`: of GPU at once. `unit_seconds_above`: units times the
    time limit. `high_priority`: also priority high, unless the user has the right to it."""

    units_above: int = 0
    unit_seconds_above: int = 0
    high_priority: bool = False


def needs_approval(
    job_units: int,
    seconds: int,
    rules: ApprovalRules,
    *,
    priority: Priority = Priority.NORMAL,
    has_right: bool = False,
) -> str | None:
    """Why an admin must approve a job of so many units and seconds; None where nobody needs to.

    `has_right`: the user may use priority high without asking."""
    if rules.units_above and job_units > rules.units_above:
        most = as_gpus(rules.units_above, up=False)
        return f"This asks for {as_gpus(job_units)} GPUs; above {most} an admin approves"
    asked = job_units * seconds
    if rules.unit_seconds_above and asked > rules.unit_seconds_above:
        most = as_gpus(rules.unit_seconds_above // SECONDS_PER_HOUR, up=False)
        hours = as_gpus(-(-asked // SECONDS_PER_HOUR))
        return f"This may take {hours} GPU-hours; above {most} an admin approves"
    if rules.high_priority and priority is Priority.HIGH and not has_right:
        return "Priority high is given by an admin"
    return None
