"""Placements are committed many in a transaction, and one that is refused costs no other its
devices."""

from collections import Counter

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.contract.documents import GpuMode, SliceKind
from portal.allocations.models import Allocation
from portal.audit.models import Event
from portal.inventory.models import Gpu, Node, Slice, SlotClaim
from portal.jobs.models import Attempt, Job
from portal.jobs.services import job_cancel
from portal.live import bell
from portal.planning.planner_input import planner_input
from portal.quotas.models import Quota
from scheduler.commit import placements as placements_module
from scheduler.commit.plan import commit
from scheduler.core.model.decisions import DevicePlacement, JobPlacement, Plan, ReplicaPlacement
from scheduler.core.model.policy import Policy
from scheduler.core.model.states import JobStatus
from scheduler.core.plan import plan as decide
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
WHOLE = 56_000
SHARE = {"mps": {"threads": 25, "memory": "20GiB"}}


@pytest.fixture(autouse=True)
def no_pass(monkeypatch):
    """No bell starts a task: the plans of these tests are the first."""
    monkeypatch.setattr(bell, "_send_once", lambda *_, **__: None)


def queued(count, gpus=16, **fields):
    user = a_user()
    project = a_project("", user, gpus=gpus)
    return [a_job(user, project, **({"device": {"gpus": 1}} | fields)) for _ in range(count)]


def on(job, gpu) -> JobPlacement:
    """The job on this whole GPU."""
    device = DevicePlacement(
        gpu=str(gpu.pk),
        kind=SliceKind.GPU,
        profile="",
        start=0,
        size=8,
        units=WHOLE,
        memory_mib=gpu.memory_mib,
    )
    return JobPlacement(str(job.pk), (ReplicaPlacement(0, str(gpu.node_id), (device,)),))


def a_plan() -> Plan:
    return decide(planner_input(now=timezone.now(), policy=Policy()), Policy())


def statuses(jobs) -> list[str]:
    rows = dict(Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("pk", "status"))
    return [rows[job.pk] for job in jobs]


@pytest.mark.parametrize(
    ("fields", "most"),
    # Two of them read what else a plan writes, six make the documents of the nodes; of gangs two
    # more: whether rank 0 has its image already, and whether all of its nodes offer RDMA.
    [
        pytest.param({}, 27, id="whole GPUs"),
        pytest.param({"device": {"mig": "2g.35gb"}}, 28, id="new slices"),
        pytest.param({"device": SHARE}, 27, id="shares"),
        pytest.param({"replicas": 2, "topology": "any"}, 29, id="gangs"),
    ],
)
def test_many_placements_take_as_many_statements_as_one(fields, most):
    costs = []
    for count in (1, 5):
        a_node(gpus=2 * count)
        jobs = queued(count, **fields)
        decided = a_plan()
        assert len(decided.placements) == count
        with CaptureQueriesContext(connection) as seen:
            assert commit(Plan(placements=decided.placements)).placed == count
        costs.append(Counter(query["sql"].split()[0] for query in seen))
        assert set(statuses(jobs)) == {JobStatus.PLACED}
        Node.objects.update(schedulable=False)
    assert costs[0] == costs[1]
    assert costs[0]["BEGIN"] == 1
    assert sum(costs[0].values()) - costs[0]["BEGIN"] - costs[0]["COMMIT"] <= most


def test_one_that_the_database_refuses_costs_no_other_its_devices(monkeypatch, caplog):
    """Even where the check of the committer itself were wrong."""
    monkeypatch.setattr(placements_module, "reserve_if_legal", lambda *_: None)
    a_node(gpus=6)
    jobs, gpus = queued(6), list(Gpu.objects.order_by("index"))
    # The fourth job is to have the GPU of the first one.
    gpus[3] = gpus[0]
    result = commit(Plan(placements=tuple(map(on, jobs, gpus))))
    assert (result.placed, result.stale, result.remaining) == (5, 1, 0)
    won = [JobStatus.PLACED] * 3 + [JobStatus.QUEUED] + [JobStatus.PLACED] * 2
    assert statuses(jobs) == won
    assert f"the database refused the placement of job {jobs[3].pk}" in caplog.text
    assert (Allocation.objects.count(), SlotClaim.objects.count()) == (5, 40)
    assert Quota.objects.get().used_units == 5 * WHOLE
    assert Attempt.objects.count() == Event.objects.filter(new=JobStatus.PLACED).count() == 5


def test_what_is_over_the_quota_is_refused_by_its_constraint_alone(monkeypatch):
    monkeypatch.setattr(placements_module, "reserve_if_legal", lambda *_: None)
    a_node(gpus=4)
    jobs = queued(4, gpus=3)
    result = commit(Plan(placements=tuple(map(on, jobs, Gpu.objects.order_by("index")))))
    assert (result.placed, result.stale) == (3, 1)
    assert Quota.objects.get().used_units == 3 * WHOLE
    assert statuses(jobs) == [JobStatus.PLACED] * 3 + [JobStatus.QUEUED]


def test_each_is_checked_against_those_before_it_in_the_same_transaction(caplog):
    a_node(gpus=2)
    jobs, gpus = queued(3), list(Gpu.objects.order_by("index"))
    result = commit(Plan(placements=tuple(map(on, jobs, (gpus[0], gpus[0], gpus[1])))))
    assert (result.placed, result.stale) == (2, 1)
    assert statuses(jobs) == [JobStatus.PLACED, JobStatus.QUEUED, JobStatus.PLACED]
    assert "the database refused" not in caplog.text


def test_one_whose_job_is_gone_leaves_the_others(caplog):
    a_node(gpus=3)
    jobs = queued(3)
    job_cancel(job=jobs[1], actor="olga")
    result = commit(Plan(placements=tuple(map(on, jobs, Gpu.objects.order_by("index")))))
    assert (result.placed, result.stale) == (2, 1)
    assert statuses(jobs) == [JobStatus.PLACED, JobStatus.CANCELLED, JobStatus.PLACED]


def test_a_job_that_is_named_twice_starts_once():
    a_node(gpus=2)
    (job,) = queued(1)
    result = commit(Plan(placements=tuple(on(job, gpu) for gpu in Gpu.objects.all())))
    assert (result.placed, Attempt.objects.count(), Slice.objects.count()) == (1, 1, 1)


def test_shares_of_two_projects_never_meet_on_a_gpu(monkeypatch):
    monkeypatch.setattr(placements_module, "reserve_if_legal", lambda *_: None)
    a_node()
    gpu = Gpu.objects.get()
    jobs = [queued(1, device=SHARE)[0] for _ in range(2)]
    share = DevicePlacement(
        *(str(gpu.pk), SliceKind.MPS, "", 0, 8), units=1, memory_mib=10, threads=25
    )
    places = [
        JobPlacement(str(job.pk), (ReplicaPlacement(0, str(gpu.node_id), (share,)),))
        for job in jobs
    ]
    assert commit(Plan(placements=tuple(places))).placed == 1
    gpu.refresh_from_db()
    assert (gpu.desired_mode, gpu.shared_threads) == (GpuMode.MPS, 25)
    assert gpu.sharing_project_id == jobs[0].project_id
