"""What makes the place of a waiting job in the queue, as far as its own row says it.

The planner also weighs recent use of its owner and how long such runs took; those change with every
pass and are not stored.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.contract.boards import Board
from portal.database.intervals import SECOND
from portal.jobs.models import Job
from portal.planning.inventory_view import current_inventory
from scheduler.core.devices.options import device_options
from scheduler.core.model.policy import Policy
from scheduler.core.request import parse_stored_request


@dataclass(frozen=True, slots=True)
class OrderFactors:
    """Amounts are upper bounds: most jobs end before their time limit."""

    units: int
    """GPU units that all its replicas take on the board that serves them with the fewest."""
    limit_seconds: int
    """What is left of its time limit."""
    waited_seconds: int
    patience_seconds: int

    @property
    def work_unit_seconds(self) -> int:
        return self.units * self.limit_seconds

    @property
    def counted_unit_seconds(self) -> int:
        """Its work as the fair order counts it after this wait."""
        patience = max(1, self.patience_seconds)
        return self.work_unit_seconds * patience // (patience + self.waited_seconds)


def order_factors(jobs: Sequence[Job], policy: Policy, now: datetime) -> dict[int, OrderFactors]:
    """By job id. One query, and two more where the inventory has changed."""
    units = _units(jobs, current_inventory().capacity.boards)
    return {
        job.pk: OrderFactors(
            units=units[job.pk],
            limit_seconds=max(0, job.time_limit_seconds - job.attained_seconds),
            waited_seconds=max(0, (now - (job.queued_at or job.submitted_at)) // SECOND),
            patience_seconds=policy.patience_seconds,
        )
        for job in jobs
    }


def _units(jobs: Iterable[Job], boards: Iterable[Board]) -> dict[int, int]:
    """By job. Jobs of one queue request few different devices; each is worked out once."""
    of_device: dict[str, int] = {}
    units = {}
    for job in jobs:
        device = json.dumps(job.request["device"], sort_keys=True)
        if device not in of_device:
            of_device[device] = _replica_units(job, boards)
        units[job.pk] = of_device[device] * job.replica_count
    return units


def _replica_units(job: Job, boards: Iterable[Board]) -> int:
    options = device_options(parse_stored_request(job.request).device, boards)
    return options[0].replica_units if options else 0
