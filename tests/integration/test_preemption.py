"""Work that makes way for others: stopped with its grace, queued again, and told why."""

from dataclasses import replace

import pytest

from agents.contract.documents import ReplicaState, SliceKind
from agents.contract.end_causes import EndCause
from agents.contract.message import verbatim
from portal.audit.models import Event
from portal.desired.services import node_drive
from portal.inventory.models import Gpu, Node
from portal.jobs.lifecycle import seconds_left
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from portal.quotas.models import Quota
from scheduler.commit import plan as committer
from scheduler.commit import preemptions
from scheduler.core.model.decisions import (
    Deferral,
    DevicePlacement,
    JobPlacement,
    Plan,
    Preemption,
    PreemptionCause,
    ReplicaPlacement,
    Reservation,
)
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle
from tests.support.times import ago, at_epoch

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = {"device": {"gpus": 1}}


def stopped_for(victim, other, cause=PreemptionCause.PRIORITY):
    return Plan(preemptions=(Preemption(str(victim.pk), str(other.pk), cause),))


def a_running(priority="low", **fields):
    alice = a_user()
    project = a_project("", alice)
    node = a_node()
    job = a_job(alice, project, priority=priority, **(WHOLE | fields))
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    return node, project, alice, job


def saved(job, **times):
    """It began, and saved a checkpoint, so long ago."""
    Job.objects.filter(pk=job.pk).update(started_at=ago(seconds=times["began"]))
    job.attempts.update(saved_at=ago(seconds=times["saved"]) if "saved" in times else None)


def test_a_victim_is_stopped_queued_again_and_started_again_with_a_higher_attempt():
    node, project, alice, victim = a_running(retries={"infrastructure": 0})
    saved(victim, began=100, saved=40)
    queued_at = victim.queued_at
    other = a_job(alice, project, priority="high", **WHOLE)

    committer.commit(stopped_for(victim, other))
    victim.refresh_from_db()
    assert (victim.status, victim.stop_reason) == (JobStatus.STOPPING, "preempted")
    node_drive(node_id=node.row.pk)
    node.obey()
    victim.refresh_from_db()
    assert victim.status == JobStatus.QUEUED
    assert victim.queued_at == queued_at, "it keeps its place in the queue"
    assert victim.preempted == 1
    assert victim.attained_seconds == 60, "what it ran after it saved is lost"
    assert victim.stop_reason == ""
    assert victim.attempts.get().outcome == "preempted"
    assert "from its last checkpoint" in Event.objects.filter(job=victim).latest("pk").sentence

    settle(node)
    assert Job.objects.get(pk=other.pk).status == JobStatus.RUNNING
    node.finish()
    settle(node)
    victim.refresh_from_db()
    assert victim.status == JobStatus.RUNNING
    assert list(victim.attempts.values_list("number", flat=True)) == [1, 2]
    left = (victim.deadline_at - victim.started_at).total_seconds()
    assert left == victim.time_limit_seconds - victim.attained_seconds
    assert Quota.objects.get(project=project).used_units == 56_000


def test_the_victims_people_read_why_and_nothing_of_who():
    _, _, _, victim = a_running()
    bob = a_user("secretive-bob")
    foreign = a_job(bob, a_project("moonshot", bob), priority="high", name="rocket", **WHOLE)
    committer.commit(stopped_for(victim, foreign))
    told = " ".join(
        f"{event.sentence} {event.data}" for event in Event.objects.filter(job_id=victim.pk)
    )
    assert "stopped for a job of higher priority" in told
    for word in ("moonshot", "rocket", "secretive-bob", foreign.label):
        assert word not in told


@pytest.mark.parametrize("cause", PreemptionCause)
def test_every_cause_has_words_for_people(cause):
    assert preemptions.CAUSES[cause]


def test_who_may_not_be_stopped_is_not():
    _, project, alice, fixed = a_running(priority="normal")
    other = a_job(alice, project, priority="high", **WHOLE)
    committer.commit(stopped_for(fixed, other))
    fixed.refresh_from_db()
    assert fixed.status == JobStatus.RUNNING


def test_a_victim_that_stops_or_ended_meanwhile_is_left_alone():
    node, project, alice, victim = a_running()
    other = a_job(alice, project, priority="high", **WHOLE)
    job_cancel(job=victim, actor="alice")
    assert not preemptions.preemption_commit(stopped_for(victim, other).preemptions[0])
    settle(node)
    assert not preemptions.preemption_commit(stopped_for(victim, other).preemptions[0])
    victim.refresh_from_db()
    assert (victim.status, victim.preempted) == (JobStatus.CANCELLED, 0)


def test_a_victim_that_is_cancelled_while_it_stops_does_not_come_back():
    node, project, alice, victim = a_running()
    other = a_job(alice, project, priority="high", **WHOLE)
    committer.commit(stopped_for(victim, other))
    job_cancel(job=victim, actor="alice")
    settle(node)
    victim.refresh_from_db()
    assert victim.status == JobStatus.CANCELLED


def test_a_job_that_ran_nearly_to_its_limit_has_a_minute_left_when_it_starts_again():
    node, project, alice, victim = a_running(time_limit="1h")
    saved(victim, began=3_599, saved=0)
    committer.commit(stopped_for(victim, a_job(alice, project, priority="high", **WHOLE)))
    node_drive(node_id=node.row.pk)
    node.obey()
    victim.refresh_from_db()
    assert victim.attained_seconds == 3_540


def test_a_job_that_runs_again_is_told_what_is_left_of_its_limit():
    node, project, alice, victim = a_running(time_limit="1h")
    (told,) = node.hear().replicas
    assert told.time_limit_seconds == 3_600
    saved(victim, began=1_100, saved=100)
    other = a_job(alice, project, priority="high", **WHOLE)
    committer.commit(stopped_for(victim, other))
    settle(node)
    node.finish()
    settle(node)
    victim.refresh_from_db()
    assert victim.status == JobStatus.RUNNING
    (told,) = node.hear().replicas
    assert told.time_limit_seconds == 2_600


@pytest.mark.parametrize("stop", ["preempted", "lost"])
@pytest.mark.parametrize(("times", "attained"), [({}, 0), ({"saved": 400}, 600)])
def test_a_limit_counts_what_was_saved_and_nothing_without_a_checkpoint(stop, times, attained):
    node, project, alice, job = a_running(time_limit="1h", retries={"infrastructure": 1})
    saved(job, began=1_000, **times)
    if stop == "preempted":
        committer.commit(stopped_for(job, a_job(alice, project, priority="high", **WHOLE)))
        node_drive(node_id=node.row.pk)
        node.obey()
    else:
        node.finish(137, state=ReplicaState.FAILED, code=str(EndCause.NODE_RESTARTED))
    job.refresh_from_db()
    assert (job.status, job.attained_seconds) == (JobStatus.QUEUED, attained)
    told = Event.objects.filter(job=job, code=stop, new=JobStatus.QUEUED)
    assert ["saved no checkpoint" in event.sentence for event in told] == (
        [not times] if stop == "preempted" else []
    )


@pytest.mark.parametrize(("limit", "attained", "left"), [(3_600, 3_590, 60), (30, 0, 30)])
def test_whoever_starts_gets_a_minute_or_its_whole_limit(limit, attained, left):
    assert seconds_left(Job(time_limit_seconds=limit, attained_seconds=attained)) == left


def test_a_victim_that_ended_well_before_it_was_told_to_stop_has_succeeded():
    node, project, alice, victim = a_running()
    committer.commit(stopped_for(victim, a_job(alice, project, priority="high", **WHOLE)))
    node_drive(node_id=node.row.pk)
    # Its node has not taken that yet.
    node.finish(exit_code=0)
    victim.refresh_from_db()
    assert (victim.status, victim.stop_reason) == (JobStatus.SUCCEEDED, "succeeded")
    assert victim.attempts.get().outcome == "succeeded"
    assert victim.preempted == 0


def test_a_victim_that_is_told_saves_its_work_and_ends_well_runs_again():
    node, project, alice, victim = a_running()
    committer.commit(stopped_for(victim, a_job(alice, project, priority="high", **WHOLE)))
    node_drive(node_id=node.row.pk)
    node.hear()
    node.finish(exit_code=0)
    victim.refresh_from_db()
    assert (victim.status, victim.preempted) == (JobStatus.QUEUED, 1)


def test_a_gang_of_which_one_did_not_end_well_runs_again():
    node, project, alice, victim = a_running(replicas=2, device={"mig": "2g.35gb"})
    committer.commit(stopped_for(victim, a_job(alice, project, priority="high", **WHOLE)))
    first = min(node.replicas.values(), key=lambda seen: seen.rank)
    node.replicas[first.id] = replace(first, state=ReplicaState.EXITED, exit_code=0)
    node_drive(node_id=node.row.pk)
    node.obey()
    victim.refresh_from_db()
    assert (victim.status, victim.preempted) == (JobStatus.QUEUED, 1)


def the_rows():
    """What a plan changes, without what only counts attempts of ours to commit it."""
    jobs = Job.objects.order_by("pk").values_list(
        *("pk", "status", "bypassed", "preempted", "position", "reserved_at", "stop_reason")
    )
    attempts = Job.objects.order_by("pk").values_list("pk", "attempts__number")
    return list(jobs), list(attempts), list(Quota.objects.values_list("used_units", flat=True))


def a_place(job, node):
    """The job on the whole GPU of this node."""
    gpu = Gpu.objects.get(node=node.row)
    device = DevicePlacement(
        gpu=str(gpu.pk),
        kind=SliceKind.GPU,
        profile="",
        start=0,
        size=8,
        units=56_000,
        memory_mib=gpu.memory_mib,
    )
    return JobPlacement(str(job.pk), (ReplicaPlacement(0, str(node.row.pk), (device,)),))


def a_plan(project, alice, victim):
    """Two placements, a preemption, a reservation, a hold and an overtaken job."""
    nodes = [a_node(), a_node()]
    # Nothing starts by itself: this plan is the first that has room.
    Node.objects.update(schedulable=False)
    wide = a_job(alice, project, priority="high", replicas=3, topology="any", **WHOLE)
    small = [a_job(alice, project, **WHOLE) for _ in nodes]
    Node.objects.update(schedulable=True)
    reason = Reason(ReasonCode.RESERVATION, verbatim("it waits"))
    return Plan(
        placements=tuple(a_place(job, node) for job, node in zip(small, nodes, strict=True)),
        preemptions=(Preemption(str(victim.pk), str(wide.pk), PreemptionCause.PRIORITY),),
        reservations=(Reservation(str(wide.pk), 2_000_000_000, ()),),
        deferrals=(Deferral(str(wide.pk), reason, 1),),
        bypassed=(str(wide.pk),),
    )


@pytest.mark.parametrize(
    "crash_at", ["placements_commit", "preemption_commit", "deferrals_write", "nowhere"]
)
def test_a_plan_that_was_half_committed_is_committed_again_to_the_same_rows(crash_at, monkeypatch):
    _, project, alice, victim = a_running()
    plan = a_plan(project, alice, victim)
    real = getattr(committer, crash_at, None)
    calls = []

    def crash(*arguments):
        calls.append(arguments)
        if crash_at == "placements_commit" and len(calls) == 1:
            return real(*arguments)
        raise RuntimeError("the worker was killed")

    monkeypatch.setattr(committer, "BATCH_SIZE", 1)
    if real:
        monkeypatch.setattr(committer, crash_at, crash)
        with pytest.raises(RuntimeError):
            committer.commit(plan)
        monkeypatch.undo()
    committer.commit(plan)
    after = the_rows()
    jobs = {row[0]: row[1:] for row in after[0]}
    assert jobs[victim.pk][0] == JobStatus.STOPPING
    wide = int(plan.bypassed[0])
    assert jobs[wide][:4] == (JobStatus.QUEUED, 1, 0, 1)
    assert jobs[wide][4] == at_epoch(2_000_000_000)
    assert {jobs[int(p.job)][0] for p in plan.placements} == {JobStatus.PLACED}
    committer.commit(plan)
    assert the_rows() == after, "once more changes nothing"


def test_a_placement_that_the_world_overtook_counts_no_bypass():
    _, project, alice, _ = a_running()
    waiting = a_job(alice, project, **WHOLE)
    gone = a_job(alice, project, **WHOLE)
    job_cancel(job=gone, actor="alice")
    committer.commit(
        Plan(placements=(JobPlacement(str(gone.pk), ()),), bypassed=(str(waiting.pk),))
    )
    waiting.refresh_from_db()
    assert waiting.bypassed == 0


def test_a_bypass_counts_once_though_the_last_placement_was_overtaken():
    _, project, alice, victim = a_running()
    full = a_plan(project, alice, victim)
    started, overtaken = full.placements
    job_cancel(job=Job.objects.get(pk=overtaken.job), actor="alice")
    result = committer.commit(full)
    assert (result.placed, result.stale) == (1, 1)
    assert Job.objects.get(pk=started.job).status == JobStatus.PLACED
    assert Job.objects.get(pk=full.bypassed[0]).bypassed == 1


def test_a_reservation_is_shown_until_the_plan_has_none():
    _, project, alice, _ = a_running()
    job = a_job(alice, project, **WHOLE)
    committer.commit(Plan(reservations=(Reservation(str(job.pk), 2_000_000_000, ()),)))
    job.refresh_from_db()
    assert job.reserved_at == at_epoch(2_000_000_000)
    committer.commit(Plan())
    job.refresh_from_db()
    assert job.reserved_at is None
