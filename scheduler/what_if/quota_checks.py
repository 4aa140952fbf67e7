"""Refuses quotas below what their owners had allocated when the window began.

In the product such a quota stops no running job; in a simulation it would make the job wait, which
would not answer the question.
"""

from collections import Counter

from agents.contract.message import Message
from agents.contract.units import UNITS_PER_GPU, as_gpus
from scheduler.core.devices.options import node_boards
from scheduler.core.forecast.runtime_model import gpus_needed
from scheduler.core.model.snapshot import QuotaView
from scheduler.virtual.values import RecordedWindow, Scenario
from scheduler.what_if.errors import ChangeRefusedError


def require_quotas_cover_running(before: Scenario, after: Scenario, window: RecordedWindow) -> None:
    """Raises ChangeRefusedError if a changed quota is too small for what its owner had allocated.
    Counts only jobs that must use the quota's model."""
    allocated = _allocated(before, window)
    for quota in after.quotas:
        units = allocated[quota.project, quota.user, quota.model]
        if quota.limit_units < units and quota not in before.quotas:
            raise ChangeRefusedError(_too_small(quota, units), "units")


def _allocated(scenario: Scenario, week: RecordedWindow) -> Counter[tuple[str, str, str]]:
    boards = node_boards(scenario.nodes)
    allocated: Counter[tuple[str, str, str]] = Counter()
    for recorded in week.jobs:
        if not recorded.was_running:
            continue
        job = recorded.job
        units = round(gpus_needed(job, boards) * UNITS_PER_GPU)
        only = job.device.models if len(job.device.models) == 1 else ()
        for model in ("", *only):
            for user in ("", job.user):
                allocated[job.project, user, model] += units
    return allocated


def _too_small(quota: QuotaView, units: int) -> Message:
    whose = f"{quota.project}/{quota.user}" if quota.user else quota.project
    whose = f"{whose}:{quota.model}" if quota.model else whose
    return Message(
        "%(whose)s had %(least)s GPUs allocated when this time began, more than the new quota, and "
        "a quota stops no running job. Set at least %(least)s, or choose other days",
        whose=whose,
        least=as_gpus(units),
    )
