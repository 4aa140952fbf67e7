"""Quotas that are less than what somebody held when the window began.

Such a quota stops no running job in the product, but a replay would make the job wait: no answer to
what was asked.
"""

from collections import Counter

from agents.contract.units import UNITS_PER_GPU, as_gpus
from scheduler.core.devices.options import gpu_board
from scheduler.core.forecast.runtime_model import gpus_needed
from scheduler.core.model.snapshot import QuotaView
from scheduler.virtual.values import RecordedWindow, Scenario
from scheduler.what_if.errors import ChangeRefusedError


def require_quotas_cover_running(before: Scenario, after: Scenario, window: RecordedWindow) -> None:
    """Raises ChangeRefusedError where a changed quota is too small for what its owner held. Only
    jobs are counted that can have nothing but the quota's model."""
    held = _held(before, window)
    for quota in after.quotas:
        units = held[quota.project, quota.user, quota.model]
        if quota.limit_units < units and quota not in before.quotas:
            raise ChangeRefusedError(_sentence(quota, units), "units")


def _held(setting: Scenario, week: RecordedWindow) -> Counter[tuple[str, str, str]]:
    boards = sorted(
        {gpu_board(gpu) for node in setting.nodes for gpu in node.gpus}, key=lambda b: b.key
    )
    held: Counter[tuple[str, str, str]] = Counter()
    for recorded in week.jobs:
        if not recorded.was_running:
            continue
        job = recorded.job
        units = round(gpus_needed(job, boards) * UNITS_PER_GPU)
        only = job.device.models if len(job.device.models) == 1 else ()
        for model in ("", *only):
            for user in ("", job.user):
                held[job.project, user, model] += units
    return held


def _sentence(quota: QuotaView, units: int) -> str:
    whose = f"{quota.user} in {quota.project}" if quota.user else quota.project
    of = f" of {quota.model}" if quota.model else ""
    least = as_gpus(units)
    return (
        f"{whose} held {least} GPUs{of} when this time began, more than the quota asked about, and "
        f"a quota stops no running job. Ask for at least {least}, or about other days"
    )
