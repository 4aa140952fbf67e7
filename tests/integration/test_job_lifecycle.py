"""From a request to a result in the control plane, against honest nodes in memory."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.allocations.models import Allocation
from portal.audit.models import Event
from portal.audit.transitions import IllegalTransitionError, StaleStatusError, advance
from portal.desired.services import node_drive
from portal.errors import Refused
from portal.inventory.models import Gpu, Node, Slice, SlotClaim
from portal.jobs.models import DesiredState, Job, Replica
from portal.jobs.services import job_cancel
from portal.quotas.models import Quota
from scheduler import sweeper
from scheduler.core.model.states import AllocationStatus, JobStatus, NodeStatus, SliceStatus
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

GANG = {"replicas": 2, "topology": "any"}


def status_of(job: Job) -> str:
    job.refresh_from_db()
    return job.status


def used(project) -> int:
    return Quota.objects.get(project=project, user=None).used_units


def test_a_gang_becomes_two_slices_on_two_nodes_and_a_result():
    alice = a_user()
    project = a_project("vision", alice)
    one, two = a_node(gpus=2), a_node(gpus=2)
    job = a_job(alice, project, **GANG)

    settle(one, two)
    assert status_of(job) == JobStatus.RUNNING
    slices = Slice.objects.filter(status=SliceStatus.READY)
    assert {s.gpu.node_id for s in slices} == {one.row.pk, two.row.pk}
    assert {s.profile for s in slices} == {"2g.35gb"}
    assert used(project) == 2 * 16_000

    one.finish()
    two.finish()
    settle(one, two)
    assert status_of(job) == JobStatus.SUCCEEDED
    assert used(project) == 0
    assert not Allocation.objects.exclude(status=AllocationStatus.RELEASED).exists()
    story = list(job.events.exclude(new="").filter(noun="job").values_list("new", flat=True))
    assert story == ["queued", "placed", "preparing", "running", "succeeded"]


def test_a_node_that_blocks_itself_gets_no_work_and_says_why():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node("n1")
    node.blocks = ("block: runc 1.0 lets a container out. Mend: apt install runc",)
    node.report()
    job = a_job(alice, project)
    plan_once()
    assert status_of(job) == JobStatus.QUEUED
    assert job.reason["code"] == "node_unavailable"
    assert "runc 1.0 lets a container out" in job.reason["sentence"]
    node.blocks = ()
    node.report()
    settle(node)
    assert status_of(job) == JobStatus.RUNNING


def test_nobody_runs_before_everybody_is_ready():
    alice = a_user()
    project = a_project("vision", alice)
    one, two = a_node(), a_node()
    job = a_job(alice, project, **GANG)
    plan_once()
    for node in (one, two):
        node_drive(node_id=node.row.pk)
    one.obey()
    node_drive(node_id=one.row.pk)
    one.obey()
    assert status_of(job) == JobStatus.PREPARING
    assert set(Replica.objects.values_list("desired_state", flat=True)) == {"prepare"}
    two.obey()
    assert set(Replica.objects.values_list("desired_state", flat=True)) == {"run"}


def test_a_warm_slice_serves_the_next_job_without_carving():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    first = a_job(alice, project)
    settle(node)
    node.finish()
    settle(node)
    second = a_job(alice, project)
    settle(node)
    assert status_of(first) == JobStatus.SUCCEEDED
    assert status_of(second) == JobStatus.RUNNING
    assert node.makes == 1


def test_an_idle_slice_makes_way_for_a_whole_gpu():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    a_job(alice, project)
    settle(node)
    node.finish()
    settle(node)
    whole = a_job(alice, project, device={"gpus": 1})
    settle(node)
    assert status_of(whole) == JobStatus.RUNNING
    assert Gpu.objects.get().observed_mode == "whole"
    assert SlotClaim.objects.count() == 8


def test_a_full_gpu_holds_the_job_with_a_reason_and_frees_for_it():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    first = a_job(alice, project, device={"gpus": 1})
    settle(node)
    second = a_job(alice, project, device={"mig": "1g.18gb"})
    settle(node)
    assert status_of(second) == JobStatus.QUEUED
    assert second.reason["code"] == "resources"
    assert second.position == 1
    node.finish()
    settle(node)
    assert status_of(first) == JobStatus.SUCCEEDED
    assert status_of(second) == JobStatus.RUNNING


def test_quota_holds_and_says_the_numbers():
    alice = a_user()
    project = a_project("vision", alice, gpus=1)
    node = a_node(gpus=2)
    a_job(alice, project, device={"gpus": 1})
    settle(node)
    second = a_job(alice, project, device={"gpus": 1})
    settle(node)
    assert status_of(second) == JobStatus.QUEUED
    assert second.reason["code"] == "quota_project"
    assert used(project) == 56_000


def test_what_can_never_run_is_refused_and_changes_nothing():
    alice = a_user()
    project = a_project("vision", alice, gpus=100)
    a_node()
    for device in ({"gpus": 9}, {"mig": "5g.90gb"}):
        with pytest.raises(Refused) as refused:
            a_job(alice, project, device=device)
        assert refused.value.code == "impossible"
    assert not Job.objects.exists()
    assert not Event.objects.filter(noun="job").exists()


def test_a_foreign_project_is_refused_like_an_unknown_one():
    alice, bob = a_user(), a_user()
    project = a_project("vision", alice)
    a_project("speech", bob)
    a_node()
    sentences = []
    for slug in ("speech", "nowhere"):
        with pytest.raises(Refused) as refused:
            a_job(alice, project, project=slug)
        assert refused.value.code == "project_unknown"
        sentences.append(refused.value.sentence.replace(slug, "X"))
    assert sentences[0] == sentences[1]


def test_a_failed_rank_stops_the_gang_and_its_failure_is_kept():
    alice = a_user()
    project = a_project("vision", alice)
    one, two = a_node(), a_node()
    job = a_job(alice, project, **GANG)
    settle(one, two)
    one.finish(exit_code=3, sentence="rank fell over")
    settle(one, two)
    assert status_of(job) == JobStatus.FAILED
    attempt = job.attempts.get()
    assert attempt.first_failure["exit_code"] == 3
    assert sorted(attempt.replicas.values_list("exit_code", flat=True)) == [3, 143]
    assert used(project) == 0


def test_when_the_last_rank_is_ready_the_nodes_of_all_are_driven_at_once(monkeypatch):
    alice = a_user()
    project = a_project("vision", alice)
    nodes = a_node(), a_node()
    a_job(alice, project, **GANG)
    rung = []
    monkeypatch.setattr("portal.jobs.lifecycle.ring_drive", lambda pks: rung.append(set(pks)))
    plan_once()
    for node in nodes:
        node_drive(node_id=node.row.pk)
        assert not rung
        node.obey()
    assert rung == [{node.row.pk for node in nodes}]
    assert Replica.objects.filter(desired_state=DesiredState.RUN).count() == len(nodes)


def test_a_rank_that_ended_well_before_another_failed_is_not_its_failure():
    alice = a_user()
    project = a_project("vision", alice)
    one, two = a_node(), a_node()
    job = a_job(alice, project, **GANG)
    settle(one, two)
    one.finish(exit_code=0)
    settle(one, two)
    two.finish(exit_code=3, sentence="rank fell over")
    settle(one, two)
    assert status_of(job) == JobStatus.FAILED
    assert job.attempts.get().first_failure["exit_code"] == 3


def test_an_infrastructure_failure_is_tried_again_with_a_higher_fence():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    job = a_job(alice, project, retries={"infrastructure": 1})
    settle(node)
    node.finish(state="failed", exit_code=None, code="runtime", sentence="the engine went away")
    settle(node)
    assert status_of(job) == JobStatus.RUNNING
    fences = list(job.attempts.values_list("id", flat=True))
    assert len(fences) == 2
    assert fences[1] > fences[0]
    assert job.infrastructure_retries_left == 0


def test_a_retry_has_its_own_time_to_become_ready():
    alice = a_user()
    node = a_node()
    job = a_job(alice, a_project("vision", alice), retries={"infrastructure": 1})
    settle(node)
    node.finish(state="failed", exit_code=None, code="runtime", sentence="the engine went away")
    node.report()
    plan_once()
    assert (status_of(job), job.attempts.count()) == (JobStatus.PLACED, 2)
    long_ago = timezone.now() - timedelta(hours=1)
    job.attempts.filter(number=1).update(created_at=long_ago)
    sweeper.sweep()
    assert status_of(job) == JobStatus.PLACED, "its first attempt is over"
    job.attempts.update(created_at=long_ago)
    sweeper.sweep()
    assert status_of(job) == JobStatus.STOPPING
    settle(node)
    assert status_of(job) == JobStatus.FAILED


def test_cancel_while_queued_running_and_ended():
    alice = a_user()
    project = a_project("vision", alice)
    queued = a_job(alice, project)
    job_cancel(job=queued, actor="alice")
    assert status_of(queued) == JobStatus.CANCELLED
    node = a_node()
    running = a_job(alice, project)
    settle(node)
    job_cancel(job=running, actor="alice")
    assert status_of(running) == JobStatus.STOPPING
    settle(node)
    assert status_of(running) == JobStatus.CANCELLED
    job_cancel(job=running, actor="alice")
    assert status_of(running) == JobStatus.CANCELLED
    assert used(project) == 0


def test_cancel_before_the_node_heard_of_it_leaves_nothing_behind():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    job = a_job(alice, project)
    plan_once()
    job_cancel(job=job, actor="alice")
    settle(node)
    assert status_of(job) == JobStatus.CANCELLED
    assert used(project) == 0
    assert not node.replicas


def test_the_time_limit_ends_a_job():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    job = a_job(alice, project, time_limit="1m")
    settle(node)
    Job.objects.filter(pk=job.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
    sweeper.sweep()
    settle(node)
    assert status_of(job) == JobStatus.TIMED_OUT


def test_the_first_reason_to_stop_wins_over_a_later_cancel():
    alice = a_user()
    node = a_node()
    job = a_job(alice, a_project("", alice))
    settle(node)
    Job.objects.update(deadline_at=timezone.now() - timedelta(seconds=1))
    sweeper.sweep()
    assert status_of(job) == JobStatus.STOPPING
    job_cancel(job=job, actor="alice")
    settle(node)
    assert (status_of(job), job.stop_reason) == (JobStatus.TIMED_OUT, "timed_out")
    assert job.attempts.get().outcome == "timed_out"


def test_a_lost_node_gives_its_job_up_only_after_the_lease():
    alice = a_user()
    project = a_project("vision", alice)
    one, two = a_node("one"), a_node("two")
    job = a_job(alice, project, retries={"infrastructure": 1})
    settle(one, two)
    replica = Replica.objects.get()
    home, other = (one, two) if replica.node_id == one.row.pk else (two, one)
    long_ago = timezone.now() - timedelta(hours=1)
    silent = Node.objects.filter(pk=home.row.pk)
    silent.update(last_seen_at=long_ago, lease_until=timezone.now() + timedelta(minutes=1))
    sweeper.sweep()
    home.row.refresh_from_db()
    assert home.row.status == NodeStatus.LOST
    assert status_of(job) == JobStatus.RUNNING, "its lease has not ended: it may still run there"

    silent.update(lease_until=long_ago)
    sweeper.sweep()
    settle(other)
    assert status_of(job) == JobStatus.RUNNING
    assert job.attempts.latest("number").replicas.get().node_id == other.row.pk
    held = Allocation.objects.exclude(status=AllocationStatus.RELEASED)
    assert held.filter(replica=replica).exists(), "its device is not free until the node says so"


def test_reports_may_come_twice_or_late():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    job = a_job(alice, project)
    settle(node)
    before = Event.objects.count()
    node.report()
    node.report()
    assert Event.objects.count() == before
    assert status_of(job) == JobStatus.RUNNING


def test_advance_refuses_what_the_table_lacks_and_what_somebody_else_changed():
    alice = a_user()
    project = a_project("vision", alice)
    job = a_job(alice, project)
    stale = Job.objects.get(pk=job.pk)
    with pytest.raises(IllegalTransitionError):
        advance(job, JobStatus.RUNNING)
    advance(job, JobStatus.CANCELLED)
    with pytest.raises(StaleStatusError):
        advance(stale, JobStatus.PLACED)


def test_a_program_that_failed_before_anybody_saw_it_run_has_run():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    job = a_job(alice, project)
    plan_once()
    node_drive(node_id=node.row.pk)
    node.carry_out()
    node.finish(exit_code=1)
    settle(node)
    assert status_of(job) == JobStatus.FAILED
    assert job.started_at <= job.finished_at
    story = list(job.events.exclude(new="").filter(noun="job").values_list("new", flat=True))
    assert story == ["queued", "placed", "preparing", "running", "stopping", "failed"]
