"""A GPU's health as its node tells it: no new work on a faulted one, and the reason of now."""

import pytest

from portal.inventory.models import Gpu
from scheduler.core.model.states import GpuHealth, JobStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_faulted_gpu_gets_no_work_until_it_is_well_again():
    alice = a_user()
    node = a_node()
    node.faults = {0: "XID 79: the GPU has fallen off the bus"}
    node.report()
    job = a_job(alice, a_project("vision", alice))
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    assert job.reason["evidence"]["out_of_service"] == 1
    node.faults = {}
    node.report()
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def test_the_reason_follows_what_the_node_says_now():
    node = a_node()
    told = []
    for reason in ("held by dcgmi (pid 7)", "held by dcgmi (pid 9)", ""):
        node.faults = {0: reason} if reason else {}
        node.report()
        gpu = Gpu.objects.get()
        told.append((gpu.health, gpu.health_reason))
    assert told == [
        (GpuHealth.FAULTED, "held by dcgmi (pid 7)"),
        (GpuHealth.FAULTED, "held by dcgmi (pid 9)"),
        (GpuHealth.OK, ""),
    ]


def test_a_gpu_that_a_stranger_uses_is_given_out_when_that_has_ended():
    alice = a_user()
    node = a_node()
    node.busy = {0: "python (pid 7)"}
    node.report()
    job = a_job(alice, a_project("vision", alice), device={"gpus": 1})
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED, "not placed where its node would not give it the GPU"
    node.busy = {}
    node.report()
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
