"""Quotas and running jobs in whole GPUs, for the planner's unit tests."""

from dataclasses import replace

from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.snapshot import RunningJob
from tests.support.snapshots import (
    NOW,
    UNITS_PER_GPU,
    a_job,
    a_quota,
)

GPU = UNITS_PER_GPU


def a_nominal(project, gpus, *, used=0, borrow=0, lend=0, model="", user=""):
    quota = a_quota(project, user, gpus=gpus, used=used)
    return replace(quota, borrow_units=borrow * GPU, lend_units=lend * GPU, model=model)


def a_run(id, project="p", user="u", *, gpu="n1/0", gpus=1, **fields):
    """A running job that holds whole GPUs, all on the node of `gpu`."""
    device = DevicePlacement(gpu, "gpu", "", 0, 8, GPU, 0)
    job = a_job(id, project=project, user=user, gpus=gpus, **fields)
    return RunningJob(job, (ReplicaPlacement(0, "n1", (device,) * gpus),), started_at=NOW - 60)
